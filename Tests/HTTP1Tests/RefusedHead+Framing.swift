import HTTP1

extension RefusedHead {
  static let framing: [Self] = [
    .lines("length with a plus", "Content-Length: +5", .malformedContentLength),
    .lines("length with a minus", "Content-Length: -5", .malformedContentLength),
    .lines("length with a space inside", "Content-Length: 5 0", .malformedContentLength),
    .lines("length as a list", "Content-Length: 5, 5", .malformedContentLength),
    .lines("length as a list without a space", "Content-Length: 5,5", .malformedContentLength),
    .lines("length in hexadecimal", "Content-Length: 0x5", .malformedContentLength),
    .lines("length with a fraction", "Content-Length: 5.0", .malformedContentLength),
    .lines("length in another script", "Content-Length: ٥", .malformedContentLength),
    .lines("empty length", "Content-Length:", .malformedContentLength),
    .lines("length one beyond Int", "Content-Length: 9223372036854775808", .malformedContentLength),
    .lines("length of twenty digits", "Content-Length: 00000000000000000005", .malformedContentLength),
    .lines("two equal lengths", "Content-Length: 5\r\nContent-Length: 5", .repeatedContentLength),
    .lines("two lengths", "Content-Length: 5\r\ncontent-length: 6", .repeatedContentLength),
    .lines(
      "length, then coding", "Content-Length: 5\r\nTransfer-Encoding: chunked", .contentLengthWithTransferEncoding),
    .lines(
      "coding, then length", "Transfer-Encoding: chunked\r\nContent-Length: 5", .contentLengthWithTransferEncoding),
    .lines(
      "coding, then malformed length", "Transfer-Encoding: chunked\r\nContent-Length: x",
      .contentLengthWithTransferEncoding),
    .init(
      "coding in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", .transferEncodingInHTTP10),
    .lines(
      "two codings", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", .repeatedTransferEncoding),
    .lines(
      "chunked, then identity on another line", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
      .repeatedTransferEncoding),
    .lines("chunked twice", "Transfer-Encoding: chunked, chunked", .malformedTransferEncoding),
    .lines("chunked before identity", "Transfer-Encoding: chunked, identity", .malformedTransferEncoding),
    .lines("chunked before gzip", "Transfer-Encoding: chunked, gzip", .malformedTransferEncoding),
    .lines("chunked with a parameter", "Transfer-Encoding: chunked;q=1", .malformedTransferEncoding),
    .lines("chunked in quotes", "Transfer-Encoding: \"chunked\"", .malformedTransferEncoding),
    .lines("chunked behind a comma", "Transfer-Encoding: ,chunked", .malformedTransferEncoding),
    .lines("chunked before a comma", "Transfer-Encoding: chunked,", .malformedTransferEncoding),
    .lines("chunked with a space inside", "Transfer-Encoding: chun ked", .malformedTransferEncoding),
    .lines("chunked behind NEL", "Transfer-Encoding: \u{85}chunked", .malformedTransferEncoding),
    .lines("chunked behind a vertical tab", "Transfer-Encoding: \u{0b}chunked", .controlCharacter),
    .lines("chunked before a form feed", "Transfer-Encoding: chunked\u{0c}", .controlCharacter),
    .lines("chunked on a folded line", "Transfer-Encoding:\r\n chunked", .malformedTransferEncoding),
    .lines("chunked before a colon with a space", "Transfer-Encoding : chunked", .whitespaceInFieldName),
    .lines("empty coding", "Transfer-Encoding:", .malformedTransferEncoding),
    .lines("xchunked", "Transfer-Encoding: xchunked", .unsupportedTransferCoding),
    .lines("gzip", "Transfer-Encoding: gzip", .unsupportedTransferCoding),
    .lines("identity", "Transfer-Encoding: identity", .unsupportedTransferCoding),
    .lines("gzip, then chunked", "Transfer-Encoding: gzip, chunked", .unsupportedTransferCoding),
  ]

  /// A field line of `count` bytes, CRLF included.
  private static func line(_ count: Int) -> String {
    "A: \(String(repeating: "b", count: count - 5))\r\n"
  }

  static let limits: [Self] = [
    // "GET ", " HTTP/1.1" and the target make 8193 bytes.
    .init(
      "request line of 8193 bytes", "GET /\(String(repeating: "a", count: 8179)) HTTP/1.1\r\nHost: a\r\n\r\n",
      .requestLineTooLong),
    .init("endless target", "GET /\(String(repeating: "a", count: 8189))", .requestLineTooLong),
    .init(
      "control character beyond the limit", "GET /\(String(repeating: "a", count: 9000))\u{1} HTTP/1.1\r\n",
      .requestLineTooLong),
    .init(
      "header section of 32769 bytes", "GET / HTTP/1.1\r\nHost: a\r\n\(line(32760))\r\n", .headerSectionTooLarge),
    .init(
      "endless field value", "GET / HTTP/1.1\r\nHost: a\r\nA: \(String(repeating: "b", count: 32768))",
      .headerSectionTooLarge),
    .init(
      "endless tabs", "GET / HTTP/1.1\r\nHost: a\r\nA: \(String(repeating: "\t", count: 32768))",
      .headerSectionTooLarge),
    .init(
      "endless field name", "GET / HTTP/1.1\r\nHost: a\r\n\(String(repeating: "b", count: 32768))",
      .headerSectionTooLarge),
    .init(
      "101 field lines", "GET / HTTP/1.1\r\nHost: a\r\n\(String(repeating: "A: b\r\n", count: 100))\r\n",
      .tooManyFieldLines),
  ]

  /// The largest heads that are still accepted, as the counterpart of ``limits``.
  static let largestAccepted = [
    LabelledBytes(
      "request line of 8192 bytes", "GET /\(String(repeating: "a", count: 8178)) HTTP/1.1\r\nHost: a\r\n\r\n"),
    LabelledBytes("header section of 32768 bytes", "GET / HTTP/1.1\r\nHost: a\r\n\(line(32759))\r\n"),
    LabelledBytes(
      "100 field lines", "GET / HTTP/1.1\r\nHost: a\r\n\(String(repeating: "A: b\r\n", count: 99))\r\n"),
    LabelledBytes("method of 32 bytes", "\(String(repeating: "A", count: 32)) / HTTP/1.1\r\nHost: a\r\n\r\n"),
  ]
}
