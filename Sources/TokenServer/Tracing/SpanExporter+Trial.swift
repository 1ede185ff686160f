import Dispatch
import EventLoop
import HTTPClient
import Locks
package import ServerSettings
package import TLS
import Tracing

extension SpanExporter {
  /// Sends the collector one request without any span on a loop of its own, and blocks this thread until the response.
  ///
  /// - Parameters:
  ///   - authorities: The trusted CAs for the collector; nil only without TLS.
  ///   - proxy: The URL of the proxy to the collector; nil for direct connections.
  /// - Returns: The reason why the collector does not take spans, a sentence; nil if it takes them.
  /// - Throws: `SocketError` if there is no loop, or if the URL of the proxy is unusable.
  package static func refusal(
    of settings: Settings.SpanExport, authorities: TLSClientContext?, proxy: String?, within time: Duration
  ) throws -> String? {
    let loop = try IOLoop.start(label: "doctor")
    defer { loop.stopAndWait() }
    let client = try client(settings, authorities: authorities, proxy: proxy, loop: loop)
    defer { client.close() }
    let document = document(settings)
    let batch = SpanBatch(document: document.finish(), settings: settings)
    let result = Locked<SpanBatch.Result?>(nil)
    let isDone = DispatchSemaphore(value: 0)
    Task(executorPreference: loop) {
      let outcome = await batch.send(by: client, within: time)
      result.withLock { $0 = outcome }
      isDone.signal()
    }
    // The timeouts of the client bound this wait.
    isDone.wait()
    return switch result.withLock({ $0 }) {
    case .accepted, nil: nil
    case .failed(let reason), .failedForNow(let reason, _): reason
    }
  }
}
