import HTTP1
import HTTP2

/// Feeds the input to a client with requests in flight, at once and in two parts. Traps unless both deliver the same
/// events, and every stream ends once.
func fuzzHTTP2Client(_ bytes: [UInt8]) {
  let whole = Owner().run(bytes, cut: 0)
  precondition(Owner().run(bytes, cut: cut(bytes)) == whole, "in two parts")
}

extension HTTP2SessionDelegate {
  /// Lets a session send, gives it the bytes in two parts, and lets it send again.
  func feed(_ bytes: [UInt8], cut: Int, to session: HTTP2Session) throws {
    var output: [UInt8] = []
    session.collectOutput(into: &output, limit: 1 << 20, delegate: self)
    try session.receive(bytes.span.extracting(..<cut), delegate: self)
    try session.receive(bytes.span.extracting(cut...), delegate: self)
    output = []
    session.collectOutput(into: &output, limit: 1 << 20, delegate: self)
  }
}

/// The owner: sends three requests, consumes half of the content, and resets streams with content that begins with 0.
private final class Owner: HTTP2SessionDelegate {
  private var news: [String] = []
  private var open: Set<HTTP2StreamID> = []
  private var session: HTTP2Session?

  func run(_ bytes: [UInt8], cut: Int) -> [String] {
    do {
      let session = try HTTP2Session(.client)
      self.session = session
      for method in ["GET", "HEAD", "POST"] {
        let head = HTTP2RequestHead(method: method, scheme: "https", authority: "a", path: "/")
        open.insert(try session.submitRequest(head, hasContent: method == "POST"))
      }
      session.send(Array(repeating: 1, count: 70_000), on: 5)
      try feed(bytes, cut: cut, to: session)
    } catch {
      // The session's `failure` has the result. The events before the failure depend on where the bytes were split.
      return []
    }
    session?.connectionLost(delegate: self)
    precondition(open.isEmpty, "a stream without an end")
    session = nil
    return news
  }

  func receivedResponse(_ head: HTTP2ResponseHead, on stream: HTTP2StreamID) {
    precondition(open.contains(stream) && 200...999 ~= head.status)
    check(head.fields)
    news.append("\(stream) \(head)")
  }

  func receivedContent(_ content: Span<UInt8>, on stream: HTTP2StreamID) {
    precondition(open.contains(stream) && !content.isEmpty)
    session?.consume(content.count / 2, on: stream)
  }

  func receivedEnd(on stream: HTTP2StreamID) {
    precondition(open.contains(stream))
    news.append("\(stream) ends")
  }

  func hasRoom(on stream: HTTP2StreamID) { session?.send([1], on: stream, isLast: true) }

  func streamClosed(_ stream: HTTP2StreamID, _ closure: HTTP2StreamClosure) {
    precondition(open.remove(stream) != nil, "ended twice")
    if closure.cause == .finished { precondition(news.contains("\(stream) ends")) }
  }
}

/// Checks the fields: names in lower case, no connection-specific fields (RFC 9113 §8.2.2; Host is not one of them),
/// values without control characters.
private func check(_ fields: FieldLines) {
  precondition(fields.count <= 100)
  for line in fields.lines {
    let name = String(decoding: fields.bytes[line.name], as: UTF8.self)
    precondition(!name.isEmpty && name == name.lowercased())
    precondition(!connectionSpecific.contains(name))
    precondition(fields.bytes[line.value].allSatisfy { $0 >= 0x20 && $0 != 0x7f || $0 == 0x09 })
  }
}

/// The fields that RFC 9113 §8.2.2 forbids.
private let connectionSpecific = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"]
