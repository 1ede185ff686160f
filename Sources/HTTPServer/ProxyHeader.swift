import Bytes
public import EventLoop

/// The header of the PROXY protocol, with which a proxy describes a relayed connection ahead of the connection's own
/// bytes, in text (version 1) or in binary (version 2), as in HAProxy's `proxy-protocol.txt`. Every client can write one.
public struct ProxyHeader: Sendable, Equatable {
  /// The source of a relayed connection.
  public enum Source: Sendable, Equatable {
    case address(IPAddress, port: UInt16)
    /// A client without a known address: `UNKNOWN`, `AF_UNSPEC`, or the path of a Unix-domain socket.
    case unknown
    /// The proxy itself, as for a health check: the command `LOCAL`.
    case proxy
  }

  /// The source of this connection.
  public let source: Source
  /// The length of the header in bytes; the connection's own bytes follow.
  public let length: Int

  /// The maximum length in bytes, as in nginx. Addresses take at most 232; the rest is for details, which the server skips.
  public static let maximumLength = 4096

  /// Parses the header at the start of `bytes`, which are all that have arrived on the connection so far. Returns nil if it
  /// is not complete: call again with all bytes. An error is found as soon as its byte has arrived, however they were split.
  public static func parse(_ bytes: Span<UInt8>) throws(ProxyHeaderError) -> ProxyHeader? {
    guard !bytes.isEmpty else { return nil }
    return bytes[0] == UInt8(ascii: "P") ? try parseText(bytes) : try parseBinary(bytes)
  }
}

extension Span<UInt8> {
  /// Returns whether these bytes start with `expected`, or `expected` starts with these bytes.
  fileprivate func agrees(with expected: [UInt8]) -> Bool {
    (0..<Swift.min(count, expected.count)).allSatisfy { self[$0] == expected[$0] }
  }
}

/// Version 1, a line of text: `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443` and CRLF.
extension ProxyHeader {
  /// The maximum length of a line, including its CRLF: two full IPv6 addresses.
  private static let longestLine = 107
  private static let prefix = Array("PROXY ".utf8)

  static func parseText(_ bytes: Span<UInt8>) throws(ProxyHeaderError) -> ProxyHeader? {
    guard bytes.agrees(with: prefix) else { throw .missing }
    var end = prefix.count
    // Only printable characters may stand before the CR, so that no reader treats a bare LF as the end of the line.
    while end < bytes.count, bytes[end] != UInt8(ascii: "\r") {
      guard 0x20..<0x7f ~= bytes[end], end < longestLine - 2 else { throw .malformedText }
      end += 1
    }
    guard end + 1 < bytes.count else { return nil }
    guard bytes[end + 1] == UInt8(ascii: "\n") else { throw .malformedText }
    return ProxyHeader(source: try source(in: bytes.extracting(prefix.count..<end)), length: end + 2)
  }

  /// Parses the text after the first word: protocol, two addresses and two ports, separated by single spaces.
  private static func source(in line: Span<UInt8>) throws(ProxyHeaderError) -> Source {
    let words = words(of: line)
    // The text after UNKNOWN must be ignored.
    if line.equals(words[0], "UNKNOWN") { return .unknown }
    let isIPv6 = line.equals(words[0], "TCP6")
    guard words.count == 5, isIPv6 || line.equals(words[0], "TCP4"),
      let source = address(line.extracting(words[1]), isIPv6: isIPv6),
      address(line.extracting(words[2]), isIPv6: isIPv6) != nil,
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

  /// Parses an address of this family. An IPv6 address may be an IPv4-mapped address.
  private static func address(_ text: Span<UInt8>, isIPv6: Bool) -> IPAddress? {
    text.contains(UInt8(ascii: ":")) == isIPv6 ? IPAddress(text) : nil
  }

  /// Parses a decimal number up to 65535 without leading zeros.
  private static func port(_ text: Span<UInt8>) -> UInt16? {
    guard 1...5 ~= text.count, text.count == 1 || text[0] != UInt8(ascii: "0") else { return nil }
    var value = 0
    for index in text.indices {
      guard let digit = text[index].decimalDigit else { return nil }
      value = value * 10 + Int(digit)
    }
    return UInt16(exactly: value)
  }
}

/// Version 2: a signature, version and command, family and transport, a length, addresses, ports, and typed extensions.
extension ProxyHeader {
  /// The first bytes, with which no other protocol begins.
  private static let signature = Array("\r\n\r\n\0\r\nQUIT\n".utf8)
  /// The length of all fields up to and including the length field.
  private static let fixedLength = 16

  static func parseBinary(_ bytes: Span<UInt8>) throws(ProxyHeaderError) -> ProxyHeader? {
    guard bytes.agrees(with: signature) else { throw .missing }
    let versionAndCommand = signature.count
    guard versionAndCommand < bytes.count else { return nil }
    let isLocal = bytes[versionAndCommand] == 0x20
    guard isLocal || bytes[versionAndCommand] == 0x21 else { throw .malformedBinary }
    guard versionAndCommand + 1 < bytes.count else { return nil }
    let (family, transport) = (bytes[versionAndCommand + 1] >> 4, bytes[versionAndCommand + 1] & 0x0f)
    // After the command LOCAL, only the length has a meaning.
    guard isLocal || (family <= 3 && transport <= 2) else { throw .malformedBinary }
    guard bytes.count >= fixedLength else { return nil }
    let length = fixedLength + Int(bytes[14]) << 8 + Int(bytes[15])
    guard length <= maximumLength else { throw .tooLong }
    guard bytes.count >= length else { return nil }
    guard !isLocal else { return ProxyHeader(source: .proxy, length: length) }
    // Without a family, the end of the addresses is unknown.
    guard family > 0, transport > 0 else { return ProxyHeader(source: .unknown, length: length) }
    return ProxyHeader(source: try source(in: bytes.extracting(..<length), family: family), length: length)
  }

  /// Parses the addresses and checks the extensions. The family is 1 for IPv4, 2 for IPv6, 3 for a Unix-domain socket.
  private static func source(in header: Span<UInt8>, family: UInt8) throws(ProxyHeaderError) -> Source {
    let width = family == 1 ? 4 : family == 2 ? 16 : 108
    let hasPorts = family < 3
    let end = fixedLength + 2 * width + (hasPorts ? 4 : 0)
    guard end <= header.count else { throw .malformedBinary }
    try checkExtensions(from: end, in: header)
    guard hasPorts else { return .unknown }
    let bits = (fixedLength..<fixedLength + width).reduce(UInt128(0)) { $0 << 8 | UInt128(header[$1]) }
    let address = family == 1 ? IPAddress(v4: UInt32(truncatingIfNeeded: bits)) : IPAddress(bits: bits)
    let port = fixedLength + 2 * width
    return .address(address, port: UInt16(header[port]) << 8 | UInt16(header[port + 1]))
  }

  /// Checks that the extensions after the addresses are complete, and that the checksum is correct if there is one.
  private static func checkExtensions(from start: Int, in header: Span<UInt8>) throws(ProxyHeaderError) {
    var index = start
    var checksum: Int?
    while index < header.count {
      guard header.count - index >= 3 else { throw .malformedBinary }
      let (type, length) = (header[index], Int(header[index + 1]) << 8 + Int(header[index + 2]))
      let value = index + 3
      guard header.count - value >= length else { throw .malformedBinary }
      if type == crc32c {
        guard length == 4, checksum == nil else { throw .malformedBinary }
        checksum = value
      }
      index = value + length
    }
    if let checksum { try check(header, checksumAt: checksum) }
  }

  /// The extension type PP2_TYPE_CRC32C.
  private static let crc32c: UInt8 = 3

  /// Verifies the checksum, because a receiver that can compute it must do so. Its own four bytes count as zero (2.2.3). It is
  /// that of RFC 9260 appendix A (Castagnoli's polynomial), bit by bit: once per connection, for a few dozen bytes.
  private static func check(_ header: Span<UInt8>, checksumAt place: Int) throws(ProxyHeaderError) {
    var register = UInt32.max
    var said: UInt32 = 0
    for index in header.indices {
      let isChecksum = place..<place + 4 ~= index
      if isChecksum { said = said << 8 | UInt32(header[index]) }
      register ^= isChecksum ? 0 : UInt32(header[index])
      for _ in 0..<8 {
        // The polynomial 0x1EDC6F41 with reversed bits.
        register = register & 1 == 1 ? register >> 1 ^ 0x82F6_3B78 : register >> 1
      }
    }
    guard ~register == said else { throw .wrongChecksum }
  }
}

/// The reason why a connection has no valid PROXY header.
public enum ProxyHeaderError: Error, Sendable, Equatable, CustomStringConvertible {
  case missing, malformedText, malformedBinary, tooLong, wrongChecksum, incomplete

  /// A clause for the log that describes the fault.
  public var description: String {
    switch self {
    case .missing: "the connection does not begin with a PROXY header"
    case .malformedText: "the header of version 1 is malformed"
    case .malformedBinary: "the header of version 2 is malformed"
    case .tooLong: "the header is longer than \(ProxyHeader.maximumLength) bytes"
    case .wrongChecksum: "the header's checksum is wrong"
    case .incomplete: "the header did not arrive, or only a part of it"
    }
  }
}
