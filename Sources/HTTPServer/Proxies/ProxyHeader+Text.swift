import EventLoop

/// Version 1, a line of text: `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443` and CRLF.
extension ProxyHeader {
  /// The longest line that there can be, its CRLF included: two IPv6 addresses in full.
  private static let longestLine = 107

  private static let prefix = Array("PROXY ".utf8)

  static func parseText(_ bytes: Span<UInt8>) throws(ProxyHeaderError) -> ProxyHeader? {
    guard bytes.agrees(with: prefix) else { throw .missing }
    var end = prefix.count
    // Only printable characters may stand before the CR. So no reader can take a bare LF for the end of the line.
    while end < bytes.count, bytes[end] != UInt8(ascii: "\r") {
      guard 0x20..<0x7f ~= bytes[end], end < longestLine - 2 else { throw .malformedText }
      end += 1
    }
    guard end + 1 < bytes.count else { return nil }
    guard bytes[end + 1] == UInt8(ascii: "\n") else { throw .malformedText }
    return ProxyHeader(source: try source(in: bytes.extracting(prefix.count..<end)), length: end + 2)
  }

  /// Reads what follows the first word: protocol, two addresses, two ports, with one space between each two.
  private static func source(in line: Span<UInt8>) throws(ProxyHeaderError) -> Source {
    let words = words(of: line)
    // Whatever stands behind UNKNOWN is to be ignored.
    if line.extracting(words[0]).isEqual(to: "UNKNOWN") { return .unknown }
    guard words.count == 5, let family = Family(line.extracting(words[0])),
      let source = family.address(line.extracting(words[1])), family.address(line.extracting(words[2])) != nil,
      let port = port(line.extracting(words[3])), Self.port(line.extracting(words[4])) != nil
    else { throw .malformedText }
    return .address(source, port: port)
  }

  private static func words(of line: Span<UInt8>) -> [Range<Int>] {
    var words: [Range<Int>] = []
    var start = 0
    for index in line.indices where line[index] == UInt8(ascii: " ") {
      words.append(start..<index)
      start = index + 1
    }
    return words + [start..<line.count]
  }

  private enum Family {
    case tcp4, tcp6

    init?(_ word: Span<UInt8>) {
      if word.isEqual(to: "TCP4") {
        self = .tcp4
      } else if word.isEqual(to: "TCP6") {
        self = .tcp6
      } else {
        return nil
      }
    }

    /// The address in the form of this family. Of IPv6 it may be one that maps an IPv4 address.
    func address(_ text: Span<UInt8>) -> IPAddress? {
      let hasColon = text.indices.contains { text[$0] == UInt8(ascii: ":") }
      return hasColon == (self == .tcp6) ? IPAddress(text) : nil
    }
  }

  /// A decimal number up to 65535 without leading zeros.
  private static func port(_ text: Span<UInt8>) -> UInt16? {
    guard 1...5 ~= text.count, text.count == 1 || text[0] != UInt8(ascii: "0") else { return nil }
    var value = 0
    for index in text.indices {
      guard UInt8(ascii: "0")...UInt8(ascii: "9") ~= text[index] else { return nil }
      value = value * 10 + Int(text[index] - UInt8(ascii: "0"))
    }
    return UInt16(exactly: value)
  }
}

extension Span<UInt8> {
  fileprivate func isEqual(to word: String) -> Bool {
    count == word.utf8.count && agrees(with: Array(word.utf8))
  }
}
