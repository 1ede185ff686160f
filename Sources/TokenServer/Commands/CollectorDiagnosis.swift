import Dispatch
import EventLoop
import HTTPClient
import Locks
import ServerSettings
import Tracing

/// The check of `doctor` on the collector of spans: it sends a request without any span.
enum CollectorDiagnosis {
  /// The most time, whatever the settings allow.
  private static let patience = Duration.seconds(10)

  /// Adds the result to `diagnosis`; nothing if the server exports no spans.
  static func run(_ draft: SettingsDraft, _ diagnosis: inout Diagnosis) {
    guard let settings = draft.spanExport else { return }
    diagnosis.add(.spanCollector, after: .listeners)
    guard let authorities = draft.files.loadCollectorAuthorities() else {
      return diagnosis.skip(.spanCollector, dependsOn: .settings)
    }
    do {
      let loop = try IOLoop.start(label: "doctor")
      defer { loop.stopAndWait() }
      let client = try SpanExporter.client(
        settings, authorities: authorities, proxy: draft.proxies.proxy(for: settings.endpoint.origin), loop: loop)
      defer { client.close() }
      let document = SpanExporter.document(settings)
      let batch = SpanBatch(document.finish(), settings)
      let result = Locked<SpanBatch.Result?>(nil)
      let isDone = DispatchSemaphore(value: 0)
      Task(executorPreference: loop) {
        let outcome = await batch.send(by: client, within: min(settings.timeout, patience))
        result.withLock { $0 = outcome }
        isDone.signal()
      }
      // The timeouts of the client bound this wait.
      isDone.wait()
      switch result.withLock({ $0 }) {
      case .accepted, nil: diagnosis.pass(.spanCollector, "\(settings.endpoint) takes spans.")
      case .failed(let reason), .failedForNow(let reason, _):
        diagnosis.fail(
          .spanCollector, "\(settings.endpoint) does not take spans. \(reason)",
          fix: "The server drops them and serves all requests. Check otel.exporter.otlp, and that the collector runs.",
          blocks: false)
      }
    } catch {
      diagnosis.fail(.spanCollector, "\(error)", fix: nil, blocks: false)
    }
  }
}
