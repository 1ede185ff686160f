import HTTP2

/// Feeds the input, after a client's preface, to a server that responds to every request, at
/// once and in two parts. Traps unless both deliver the same events, and every stream ends once.
func fuzzHTTP2Server(_ input: [UInt8]) {
  let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0]
  let bytes = preface + input
  let whole = Owner().run(bytes, cut: 0)
  precondition(Owner().run(bytes, cut: cut(bytes)) == whole, "in two parts")
}

/// The owner: responds to each complete request with the length of its content, and consumes half of that content.
private final class Owner: HTTP2SessionDelegate {
  /// The events of each stream that the client has not reset. A request that is reset in the bytes that bring it is not
  /// delivered, so the events of the others do not depend on where the bytes are split.
  private var news: [HTTP2StreamID: [String]] = [:]
  private var open: [HTTP2StreamID: Int] = [:]
  private var session: HTTP2Session?

  func run(_ bytes: [UInt8], cut: Int) -> [HTTP2StreamID: [String]] {
    do {
      let session = try HTTP2Session(.server)
      self.session = session
      try feed(bytes, cut: cut, to: session)
    } catch {
      // The session's `failure` has the result. The events before the failure depend on where the bytes were split.
      return [:]
    }
    session?.connectionLost(delegate: self)
    precondition(open.isEmpty, "a stream without an end")
    session = nil
    return news
  }

  func receivedRequest(_ request: HTTP2ReceivedRequest, on stream: HTTP2StreamID) {
    precondition(open.updateValue(0, forKey: stream) == nil && stream % 2 == 1)
    precondition(open.count <= 100)
    guard !request.isOversized else { return news[stream, default: []].append("too large") }
    let (bytes, control) = (Array(request.bytes), request.control)
    let isConnect = bytes[control.method].elementsEqual("CONNECT".utf8)
    precondition(!control.method.isEmpty && (isConnect || !control.path.isEmpty))
    for part in [control.method, control.scheme, control.path, control.authority ?? 0..<0] {
      precondition(bytes[part].allSatisfy { $0 > 0x20 && $0 != 0x7f }, "control data")
    }
    precondition(request.fields.count <= 101)
    for line in request.fields { check(bytes[line.name], bytes[line.value]) }
    news[stream, default: []].append("\(bytes) \(request.fields)")
  }

  func receivedContent(_ content: Span<UInt8>, on stream: HTTP2StreamID) {
    precondition(open[stream] != nil && !content.isEmpty)
    open[stream, default: 0] += content.count
    session?.consume(content.count / 2, on: stream)
  }

  func receivedEnd(on stream: HTTP2StreamID) {
    guard let count = open[stream] else { preconditionFailure("the end of nothing") }
    news[stream, default: []].append("ends after \(count)")
    try? session?.submitResponse(status: 200, on: stream, hasContent: true) {
      $0 += Array("HTTP/1.1 200 OK\r\n\r\n".utf8)
    }
    session?.send(Array(repeating: 1, count: count), on: stream, isLast: true)
  }

  func hasRoom(on stream: HTTP2StreamID) {}

  func streamClosed(_ stream: HTTP2StreamID, _ closure: HTTP2StreamClosure) {
    precondition(open.removeValue(forKey: stream) != nil, "ended twice")
    if closure.cause == .resetByPeer { news[stream] = nil }
  }
}

/// Checks a field: a name in lower case that is not connection-specific, a value without control characters.
private func check(_ name: ArraySlice<UInt8>, _ value: ArraySlice<UInt8>) {
  precondition(!name.isEmpty && name.allSatisfy { $0 > 0x20 && $0 < 0x7f && !(0x41...0x5a ~= $0) })
  precondition(!["connection", "transfer-encoding", "upgrade"].contains(String(decoding: name, as: UTF8.self)))
  precondition(value.allSatisfy { $0 >= 0x20 && $0 != 0x7f || $0 == 0x09 })
}
