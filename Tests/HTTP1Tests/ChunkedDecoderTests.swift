import HTTP1
import Testing

@Suite("The chunked decoder")
struct ChunkedDecoderTests {
  @Test("decodes bodies and stops at their end", arguments: bodies)
  func decodes(_ body: LabelledBytes, data: String) {
    let outcome = ChunkedOutcome(body.bytes + Array("GET / HTTP/1.1\r\n".utf8))
    #expect(outcome.verdict == .complete(length: body.bytes.count))
    #expect(String(decoding: outcome.data, as: UTF8.self) == data)
  }

  @Test("refuses a body that is malformed or exceeds a limit", arguments: refused)
  func refuses(_ body: LabelledBytes, error: RequestError) {
    #expect(ChunkedOutcome(body.bytes).verdict == .refused(error))
  }

  @Test("has the same outcome wherever the bytes are split", arguments: everyBody)
  func splits(_ body: LabelledBytes) {
    let whole = ChunkedOutcome(body.bytes)
    #expect(ChunkedOutcome(body.bytes, arrivals: 0...body.bytes.count) == whole, "byte by byte")
    for cut in body.cuts {
      #expect(ChunkedOutcome(body.bytes, arrivals: [cut, body.bytes.count]) == whole, "split at \(cut)")
    }
  }

  @Test("needs more bytes after each prefix, or refuses the prefix like the whole body", arguments: everyBody)
  func prefixes(_ body: LabelledBytes) {
    let whole = ChunkedOutcome(body.bytes).verdict
    var isDecided = false
    for cut in body.cuts {
      let outcome = ChunkedOutcome(Array(body.bytes.prefix(cut))).verdict
      if isDecided || outcome != .incomplete {
        #expect(outcome == whole, "prefix of \(cut)")
        isDecided = true
      }
    }
  }

  @Test("consumes all bytes when it needs more, so no byte is scanned twice", arguments: everyBody)
  func linearWork(_ body: LabelledBytes) throws {
    var decoder = ContentDecoder(.chunked)
    for byte in body.bytes {
      // Stop at the end of the body, or at a refusal.
      guard let (consumed, event) = try? decoder.decode([byte].span) else { break }
      #expect(consumed == 1)
      if event == .end { break }
    }
  }

  @Test("consumes nothing after the end of the body")
  func ended() throws {
    var decoder = ContentDecoder(.chunked)
    let last = Array("0\r\n\r\n".utf8)
    let (consumed, event) = try decoder.decode(last.span)
    #expect(consumed == 5 && event == .end)
    let (none, again) = try decoder.decode(last.span)
    #expect(none == 0 && again == .end)
  }

  @Test("reports an error on every later call")
  func remembersRefusal() {
    var decoder = ContentDecoder(.chunked)
    for bytes in [Array("x".utf8), Array("0\r\n\r\n".utf8)] {
      #expect(throws: RequestError.malformedChunkSize) {
        _ = try decoder.decode(bytes.span)
      }
    }
  }
}

extension ChunkedDecoderTests {
  static let bodies: [(LabelledBytes, String)] = [
    (.init("no data", "0\r\n\r\n"), ""),
    (.init("last chunk of many zeros", "0000000000000000\r\n\r\n"), ""),
    (.init("one chunk", "5\r\nhello\r\n0\r\n\r\n"), "hello"),
    (.init("three chunks", "1\r\na\r\n2\r\nbc\r\n3\r\ndef\r\n0\r\n\r\n"), "abcdef"),
    (.init("digits of both cases", "A\r\n0123456789\r\n00b\r\n0123456789a\r\n0\r\n\r\n"), "01234567890123456789a"),
    (.init("data that looks like chunks", "7\r\n0\r\n\r\n\0\n\r\n0\r\n\r\n"), "0\r\n\r\n\0\n"),
    (.init("extensions", "1;a;b=c;d=\"e;\\\"é\t\";f\r\na\r\n0;g\r\n\r\n"), "a"),
    (.init("trailers", "1\r\na\r\n0\r\nX: y\r\nZ:\t \u{e9}\tz\r\n\r\n"), "a"),
    (.init("trailers that would frame", "0\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\n\r\n"), ""),
    (.init("extensions of 4096 bytes", "1;\(String(repeating: "a", count: 4095))\r\na\r\n0\r\n\r\n"), "a"),
    (.init("trailer section of 8192 bytes", "0\r\nA:\(String(repeating: "a", count: 8188))\r\n\r\n"), ""),
    (.init("100 trailers", "0\r\n\(String(repeating: "A: b\r\n", count: 100))\r\n"), ""),
  ]

  static let refused: [(LabelledBytes, RequestError)] =
    sizes.map { (LabelledBytes("size \($0.debugDescription)", "\($0)\r\na\r\n0\r\n\r\n"), .malformedChunkSize) }
    + extensions.map { (LabelledBytes("extension \($0)", "1\($0)\r\na\r\n0\r\n\r\n"), .malformedChunkExtension) }
    + lines + trailers + limits

  private static let sizes = [
    "", "0x1", "-1", "+1", " 1", "1 ", "1\u{a0}", "g", "1_0", "00000000000000001", "8000000000000000",
    "ffffffffffffffff", "10000000000000000",
  ]

  private static let extensions = [
    ";", ";;", "; a", ";a ;b", ";a=", ";=b", ";a==b", ";a=\"b\"c", ";a=\"b\"=c", ";a=b\"c\"", ";a b", ";é", ";a=é",
    ";a,b",
  ]

  private static let lines: [(LabelledBytes, RequestError)] = [
    (.init("LF behind the size", "1\na\r\n0\r\n\r\n"), .bareLineFeed),
    (.init("CR behind the size", "1\ra\r\n0\r\n\r\n"), .bareCarriageReturn),
    (.init("NUL behind the size", "1\0\r\na\r\n0\r\n\r\n"), .controlCharacter),
    (.init("tab behind the size", "1\t\r\na\r\n0\r\n\r\n"), .controlCharacter),
    (.init("LF in an extension", "1;a\nb\r\na\r\n0\r\n\r\n"), .bareLineFeed),
    (.init("CR in an extension", "1;a\rb\r\na\r\n0\r\n\r\n"), .bareCarriageReturn),
    (.init("LF in a quoted string", "1;a=\"\n\"\r\na\r\n0\r\n\r\n"), .bareLineFeed),
    (.init("CRLF in a quoted string", "1;a=\"\r\n\"\r\na\r\n0\r\n\r\n"), .malformedChunkExtension),
    (.init("NUL in a quoted string", "1;a=\"\0\"\r\na\r\n0\r\n\r\n"), .controlCharacter),
    (.init("escaped LF", "1;a=\"\\\n\"\r\na\r\n0\r\n\r\n"), .bareLineFeed),
    (.init("data longer than its size", "1\r\nab\r\n0\r\n\r\n"), .malformedChunkEnd),
    (.init("data ended by LF", "1\r\na\n0\r\n\r\n"), .bareLineFeed),
    (.init("data ended by CR", "1\r\na\r0\r\n\r\n"), .bareCarriageReturn),
    (.init("data shorter than its size", "2\r\na\r\n0\r\n\r\n"), .bareLineFeed),
  ]

  private static let trailers: [(LabelledBytes, RequestError)] = [
    (.init("end by LF", "0\r\n\n"), .bareLineFeed),
    (.init("end by CR", "0\r\n\rx"), .bareCarriageReturn),
    (.init("trailer ended by LF", "0\r\nA: b\n\r\n"), .bareLineFeed),
    (.init("trailer ended by CR", "0\r\nA: b\rC: d\r\n\r\n"), .bareCarriageReturn),
    (.init("NUL in a trailer", "0\r\nA: \0\r\n\r\n"), .controlCharacter),
    (.init("folded trailer", "0\r\nA: b\r\n c\r\n\r\n"), .obsoleteFolding),
    (.init("space before the colon", "0\r\nA : b\r\n\r\n"), .whitespaceInFieldName),
    (.init("no name", "0\r\n: b\r\n\r\n"), .emptyFieldName),
    (.init("a request for a trailer", "0\r\nGET / HTTP/1.1\r\n\r\n"), .whitespaceInFieldName),
    (.init("no colon", "0\r\nA\r\n\r\n"), .malformedFieldName),
  ]

  private static let limits: [(LabelledBytes, RequestError)] = [
    (.init("extension of 4097 bytes", "1;\(String(repeating: "a", count: 4096))\r\n"), .chunkExtensionsTooLong),
    (
      .init(
        "extensions of 4097 bytes in all",
        String(repeating: "1;\(String(repeating: "a", count: 2047))\r\na\r\n", count: 2) + "0;\r\n\r\n"),
      .chunkExtensionsTooLong
    ),
    (.init("endless quoted string", "1;a=\"\(String(repeating: "a", count: 5000))"), .chunkExtensionsTooLong),
    (
      .init("trailer section of 8193 bytes", "0\r\nA:\(String(repeating: "a", count: 8189))\r\n\r\n"),
      .trailerSectionTooLarge
    ),
    (.init("101 trailers", "0\r\n\(String(repeating: "A: b\r\n", count: 101))\r\n"), .tooManyFieldLines),
  ]

  static let everyBody = bodies.map(\.0) + refused.map(\.0)
}
