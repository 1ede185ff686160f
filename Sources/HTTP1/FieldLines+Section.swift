import Bytes

/// Field lines as a header section of HTTP/1.1 (RFC 9112 §5), to keep them outside of the process.
extension FieldLines {
  /// Appends the lines, each with its CRLF, and the empty line that ends a section.
  package func appendSection(to output: inout [UInt8]) {
    output.reserveCapacity(output.count + bytes.count + 2)
    for line in lines { output.append(line, of: self) }
    output.append("\r\n")
  }

  /// Parses a whole section, as strictly as that of a received message. Returns nil if it is malformed, exceeds the
  /// limits, or does not end with the bytes.
  package init?(section bytes: Span<UInt8>, limits: HTTP1Limits = HTTP1Limits()) {
    var scanner = FieldLineScanner(limits: limits)
    var position = 0
    var lines: [FieldLine] = []
    while true {
      guard let event = try? scanner.next(in: bytes, from: &position) else { return nil }
      switch event {
      case .needMore: return nil
      case .line(let name, let content): lines.append(FieldLine(name: name, content: content, in: bytes))
      case .end:
        guard position == bytes.count else { return nil }
        self.init(received: bytes, from: 0, lines)
        return
      }
    }
  }
}
