import HTTPMessages
import HTTPTypes
import Locks

@testable import CatalogProxy

/// An upstream that answers as a test has written down.
final class ScriptedUpstream: Upstream, @unchecked Sendable {
  // Sendable: everything that changes is touched only under `mutex`.

  /// What it does with a request.
  typealias Script = @Sendable (UpstreamRequest) async throws(UpstreamError) -> UpstreamResponse

  private let mutex = Mutex()
  private let time: ManualTime
  private var script: Script
  private var seen: [UpstreamRequest] = []

  init(_ time: ManualTime, _ script: @escaping Script) {
    self.time = time
    self.script = script
  }

  /// The requests that have reached it.
  var requests: [UpstreamRequest] { mutex.withLock { seen } }

  /// Their targets.
  var targets: [String] { requests.map(\.target) }

  /// From now on it does this.
  func answer(_ script: @escaping Script) {
    mutex.withLock { self.script = script }
  }

  func send(_ request: UpstreamRequest, limits: UpstreamTimeouts) async throws(UpstreamError) -> UpstreamResponse {
    let script = mutex.withLock {
      seen.append(request)
      return self.script
    }
    return try await script(request)
  }

  func pause(for duration: Duration) async throws(CancellationError) {
    try await time.pause(for: duration)
  }
}

extension UpstreamResponse {
  /// A whole response.
  static func scripted(
    _ status: HTTPResponse.Status = .ok, _ fields: HTTPFields = [:], _ text: String = "{}"
  ) -> UpstreamResponse {
    UpstreamResponse(
      status: status, fields: fields, content: ScriptedContent(text), contentLength: text.utf8.count)
  }
}

/// Content that is there at once.
final class ScriptedContent: ContentReader, @unchecked Sendable {
  // Sendable: `bytes` is touched only under `mutex`.
  private let mutex = Mutex()
  private var bytes: [UInt8]?

  init(_ text: String) {
    bytes = text.isEmpty ? nil : Array(text.utf8)
  }

  func read() async throws(ContentError) -> [UInt8]? {
    mutex.withLock {
      defer { bytes = nil }
      return bytes
    }
  }

  func cancel() {
    mutex.withLock { bytes = nil }
  }
}

/// Holds responses back while it is shut.
final class Gate: @unchecked Sendable {
  // Sendable: `value` is touched only under `mutex`.
  private let mutex = Mutex()
  private var value = false

  var isShut: Bool {
    get { mutex.withLock { value } }
    set { mutex.withLock { value = newValue } }
  }

  /// Returns once it is open, or the task is cancelled.
  func pass() async {
    while isShut, !Task.isCancelled { await Task.yield() }
  }
}
