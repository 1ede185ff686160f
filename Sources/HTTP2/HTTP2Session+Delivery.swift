import CNghttp2

extension HTTP2Session {
  /// Tells `delegate` all news, in order, also what comes up meanwhile. `bytes` are those that content is in.
  func deliver(to delegate: some HTTP2SessionDelegate, _ bytes: Span<UInt8>) {
    // A delegate may collect output: what comes of that is told by the call that is telling already.
    guard !isDelivering, !events.isEmpty else { return }
    isDelivering = true
    defer { isDelivering = false }
    var next = 0
    while next < events.count {
      tell(events[next], to: delegate, bytes)
      next += 1
    }
    events.removeAll(keepingCapacity: true)
  }

  private func tell(_ event: SessionEvent, to delegate: some HTTP2SessionDelegate, _ bytes: Span<UInt8>) {
    switch event {
    case .request(let stream, let head):
      if !stream.isAbandoned { delegate.receivedRequest(head, on: stream.id) }
    case .oversizedRequest(let stream):
      if !stream.isAbandoned { delegate.receivedOversizedRequest(on: stream.id) }
    case .response(let stream, let head):
      if !stream.isAbandoned { delegate.receivedResponse(head, on: stream.id) }
    case .content(let stream, let range):
      // So that no stream holds up the others; its own window waits for `consume`.
      unsafe nghttp2_session_consume_connection(session, range.count)
      if !stream.isAbandoned { delegate.receivedContent(bytes.extracting(range), on: stream.id) }
    case .end(let stream):
      if !stream.isAbandoned { delegate.receivedEnd(on: stream.id) }
    case .room(let stream):
      if !stream.isAbandoned, !stream.isClosed { delegate.hasRoom(on: stream.id) }
    case .closed(let stream, let closure):
      streams[stream.id] = nil
      // The delegate never heard of a request that was refused before its head was delivered.
      if role == .client || stream.hasHead { delegate.streamClosed(stream.id, closure) }
    case .goAway(let goAway): delegate.receivedGoAway(goAway)
    case .settings: delegate.settingsChanged()
    case .pong(let payload): delegate.receivedPong(payload)
    }
  }
}
