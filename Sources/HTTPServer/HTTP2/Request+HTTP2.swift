import Bytes
import HTTP1
import HTTP2

extension Request {
  /// Takes the head of a request in HTTP/2. The parser of HTTP/1.1 applies its rules, so that both versions refuse the
  /// same requests.
  func take(_ received: HTTP2ReceivedRequest) throws(RequestError) {
    let bytes = received.bytes.span
    let target = received.path.isEmpty ? received.authority ?? 0..<0 : received.path
    try parser.take(RequestControlData(method: received.method, scheme: received.scheme, target: target), in: bytes)
    for line in received.fields { try parser.take(name: line.name, value: line.value, in: bytes) }
    try parser.takeEnd()
    keep(bytes)
  }

  /// Keeps the lines of one field of a head that the parser has refused.
  func keep(_ name: StaticString?, of received: HTTP2ReceivedRequest) {
    guard let name else { return keepRefused("", []) }
    let bytes = received.bytes.span
    keepRefused(
      name,
      received.fields.filter { bytes.equalsIgnoringCase($0.name, name) }.map { line in
        // The ranges count from the first byte of the slice.
        Array(received.bytes.dropFirst(line.value.lowerBound).prefix(line.value.count))
      })
  }
}

extension HTTP2Limits {
  /// Creates limits that refuse no header section that HTTP/1.1 accepts: HTTP/2 also counts the request line, and 32
  /// bytes for each field instead of 4 (RFC 9113 §6.5.2).
  init(_ limits: HTTP1Limits) {
    self.init()
    fieldSection = limits.headerSection + limits.requestLine + limits.fieldLines * 28
    fieldLines = limits.fieldLines
  }
}
