#if DEBUG
  import HTTP1
  import HTTP2
  import HTTPServer
  import HTTPTypes

  extension Parser {
    /// HTTP/1.1, HTTP/2 and the PROXY protocol.
    static var messages: [Parser] {
      [
        Parser("request-target", "GET /", " HTTP/1.1\r\nHost: a\r\n\r\n", request),
        Parser("request-method", "", " / HTTP/1.1\r\nHost: a\r\n\r\n", request),
        Parser("request-lines", "GET / HTTP/1.1\r\nHost: a\r\n", "\r\n", request),
        Parser("request-name", "GET / HTTP/1.1\r\nHost: a\r\n", ": b\r\n\r\n", request),
        Parser("chunks", { decode($0) }), Parser("chunk-extension", "1;", "\r\na\r\n0\r\n\r\n", { decode($0) }),
        Parser("forwarded", { hops(.forwarded, $0) }), Parser("forwarded-for", { hops(.forwardedFor, $0) }),
        Parser("proxy-header", "PROXY ", "\r\n", { _ = try? ProxyHeader.parse($0.span) }),
        Parser("http2-field", { http2("x", $0) }), Parser("http2-authority", { http2(":authority", $0) }),
        Parser("http2-host", { http2("host", $0) }), Parser("http2-path", { http2(":path", $0) }),
      ]
        + ["host", "expect", "connection", "content-length", "transfer-encoding", "accept", "forwarded"].map { name in
          Parser("request-\(name)", "GET / HTTP/1.1\r\n\(name): ", "\r\n\r\n", request)
        }
        + ["connection", "content-length", "transfer-encoding", "x"].map { name in
          Parser(
            "response-head-\(name)", "HTTP/1.1 200 OK\r\n\(name): ", "\r\nServer: a\r\n\r\n",
            { bytes in
              var parser = ResponseHeadParser(answering: .get)
              _ = try? parser.parse(bytes.span)
            })
        }
    }

    private static func request(_ bytes: [UInt8]) {
      var parser = RequestHeadParser()
      _ = try? parser.parse(bytes.span)
    }

    private static func decode(_ bytes: [UInt8]) {
      var decoder = ContentDecoder(.chunked)
      var start = 0
      while start < bytes.count {
        guard let (consumed, event) = try? decoder.decode(bytes.span.extracting(start...)), consumed > 0, event != .end
        else { return }
        start += consumed
      }
    }

    private static func hops(_ field: ForwardedHops.Field, _ value: [UInt8]) {
      var hops = ForwardedHops(field, 0..<value.count)
      while hops.next(in: value.span) != nil {}
    }

    /// A request with one literal field (RFC 7541 §6.2.2), neither indexed nor Huffman-coded.
    private static func http2(_ name: String, _ value: [UInt8]) {
      // GET, https and, where they are not what is asked for, a path and an authority.
      var block: [UInt8] = [0x82, 0x87]
      if name != ":path" { block.append(0x84) }
      if name == ":path" { block += literal(name, value) }
      block += literal(":authority", name == ":authority" ? value : Array("a".utf8))
      if !name.utf8.starts(with: ":".utf8) { block += literal(name, value) }
      let length = block.count
      let head: [UInt8] = [
        UInt8(truncatingIfNeeded: length >> 16), UInt8(truncatingIfNeeded: length >> 8),
        UInt8(truncatingIfNeeded: length), 1, 5, 0, 0, 0, 1,
      ]
      let bytes = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0] + head + block
      guard let session = try? HTTP2Session(.server) else { return }
      let peer = Peer()
      try? session.receive(bytes.span, delegate: peer)
      session.connectionLost(delegate: peer)
    }

    private static func literal(_ name: String, _ value: [UInt8]) -> [UInt8] {
      [0, UInt8(name.utf8.count)] + Array(name.utf8) + prefixed(value.count) + value
    }

    /// An integer with a prefix of seven bits (RFC 7541 §5.1).
    private static func prefixed(_ number: Int) -> [UInt8] {
      guard number >= 127 else { return [UInt8(number)] }
      var bytes: [UInt8] = [127]
      var rest = number - 127
      while rest >= 128 {
        bytes.append(UInt8(rest & 127) | 128)
        rest >>= 7
      }
      return bytes + [UInt8(rest)]
    }

    private final class Peer: HTTP2SessionDelegate {
      func receivedRequest(_ request: HTTP2ReceivedRequest, on stream: HTTP2StreamID) {}
      func receivedContent(_ content: Span<UInt8>, on stream: HTTP2StreamID) {}
      func receivedEnd(on stream: HTTP2StreamID) {}
      func hasRoom(on stream: HTTP2StreamID) {}
      func streamClosed(_ stream: HTTP2StreamID, _ closure: HTTP2StreamClosure) {}
    }
  }
#endif
