import HTTP2
import Testing

/// One end of a connection: a session and its recorder.
final class End {
  let session: HTTP2Session
  let recorder = Recorder()

  init(_ role: HTTP2Role, _ change: (inout HTTP2Limits) -> Void = { _ in }) throws {
    var limits = HTTP2Limits()
    change(&limits)
    session = try HTTP2Session(role, limits: limits)
  }

  /// All bytes that the session has to send.
  func output() -> [UInt8] {
    var output: [UInt8] = []
    session.collectOutput(into: &output, limit: .max / 2, delegate: recorder)
    return output
  }

  func receive(_ bytes: [UInt8]) throws {
    try session.receive(bytes.span, delegate: recorder)
  }

  /// Calls `body` with each event. `body` must not capture this object, because this object retains `body`.
  func reacts(_ body: @escaping (End, Recorder.Event) -> Void) {
    recorder.reaction = { [unowned self] event in body(self, event) }
  }

  /// Consumes all content when it arrives.
  func consumesAtOnce() {
    reacts { end, event in
      if case .content(let stream, let bytes) = event { end.session.consume(bytes.count, on: stream) }
    }
  }

  /// Answers every request with 200 and the request's content, once the content is complete.
  func echoes() {
    reacts { end, event in
      switch event {
      case .content(let stream, let bytes): end.session.consume(bytes.count, on: stream)
      case .end(let stream):
        let content = end.recorder.content(on: stream)
        #expect(throws: Never.self) {
          try end.session.submitResponse(HTTP2ResponseHead(status: 200), on: stream, hasContent: !content.isEmpty)
        }
        if !content.isEmpty { end.session.send(content, on: stream, isLast: true) }
      default: break
      }
    }
  }
}
