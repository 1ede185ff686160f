import Bytes
import HTTP1
import HTTPMessages
import HTTPTypes
import Locks
import TestSupport

@testable import CatalogProxy

/// An upstream that responds as a test has scripted.
final class ScriptedUpstream: Upstream {
  /// The response to a request.
  typealias Script = @Sendable (UpstreamRequest) async throws(UpstreamError) -> UpstreamResponse

  private struct State {
    var script: Script
    var seen: [UpstreamRequest] = []
  }

  private let time: ManualTime
  private let state: Locked<State>

  init(_ time: ManualTime, _ script: @escaping Script) {
    self.time = time
    state = Locked(State(script: script))
  }

  /// The requests that have reached the upstream.
  var requests: [UpstreamRequest] { state.withLock { $0.seen } }

  /// The targets of the requests that have reached the upstream.
  var targets: [String] { requests.map(\.target.text) }

  /// Replaces the script.
  func respond(_ script: @escaping Script) {
    state.withLock { $0.script = script }
  }

  func call(_ request: UpstreamRequest, limits: UpstreamTimeouts) -> any UpstreamCall {
    ScriptedCall { () throws(UpstreamError) in
      let script = self.state.withLock { state in
        state.seen.append(request)
        return state.script
      }
      return try await script(request)
    }
  }

  func pause(for duration: Duration) async throws(CancellationError) {
    try await time.pause(for: duration)
  }

  func alarm(after duration: Duration, _ ring: @escaping @Sendable () -> Void) -> any CancellableWork {
    Task { if (try? await time.pause(for: duration)) != nil { ring() } }
  }
}

/// A call whose result comes from a task.
final class ScriptedCall: UpstreamCall {
  private struct State {
    var isCancelled = false
    var task: Task<Void, Never>?
  }

  private let script: @Sendable () async throws(UpstreamError) -> UpstreamResponse
  private let state = Locked(State())

  init(_ script: @escaping @Sendable () async throws(UpstreamError) -> UpstreamResponse) {
    self.script = script
  }

  func start(_ receiver: any UpstreamReceiver) {
    let task = Task { [script] in
      do throws(UpstreamError) {
        receiver.received(.success(try await script()))
      } catch {
        receiver.received(.failure(error))
      }
    }
    let isCancelled = state.withLock { state in
      state.task = task
      return state.isCancelled
    }
    if isCancelled { task.cancel() }
  }

  func cancel() {
    let task = state.withLock { state in
      state.isCancelled = true
      return state.task
    }
    task?.cancel()
  }

  func cancelUnlessSent() {
    state.withLock { if $0.task == nil { $0.isCancelled = true } }
  }
}

extension UpstreamResponse {
  /// A complete response.
  static func scripted(
    _ status: HTTPResponse.Status = .ok, _ fields: FieldLines = [:], _ text: String = "{}"
  ) -> UpstreamResponse {
    UpstreamResponse(
      status: status, fields: fields, content: ScriptedContent(text), contentLength: text.utf8.count)
  }
}

/// Content that is available immediately to a task that goes on.
final class ScriptedContent: ContentReader {
  private let bytes: Locked<[UInt8]?>

  init(_ text: String) {
    bytes = Locked(text.isEmpty ? nil : Array(text.utf8))
  }

  func read() async throws(ContentError) -> [UInt8]? {
    guard !Task.isCancelled else { throw .cancelled }
    return bytes.withLock { bytes in
      defer { bytes = nil }
      return bytes
    }
  }

  func arriveAhead(
    upTo limit: Int, chargedTo holder: UInt128?, then ended: @escaping @Sendable (Result<Void, ContentError>) -> Void
  ) {
    ended(.success(()))
  }

  func cancel() {
    bytes.withLock { $0 = nil }
  }
}

/// Holds responses back while it is shut.
final class Gate: Sendable {
  private let value = Locked(false)

  var isShut: Bool {
    get { value.withLock { $0 } }
    set { value.withLock { $0 = newValue } }
  }

  /// Returns once the gate is open or the task is cancelled.
  func pass() async {
    try? await until("the gate opens") { !isShut }
  }
}
