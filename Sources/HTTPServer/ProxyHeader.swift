public import EventLoop

/// What a proxy says about a connection that it relays, ahead of the connection's own bytes: the PROXY protocol's
/// header, in text (version 1) or in binary (version 2), as `proxy-protocol.txt` of HAProxy has them.
///
/// Read a header only from a trusted peer, because every client can write one.
public struct ProxyHeader: Sendable, Equatable {
  /// On whose behalf there is a connection.
  public enum Source: Sendable, Equatable {
    /// The proxy's client.
    case address(IPAddress, port: UInt16)
    /// A client of whom the proxy tells no address: `UNKNOWN`, `AF_UNSPEC`, or the path of a Unix-domain socket.
    case unknown
    /// The proxy itself, as for a health check: the command `LOCAL`.
    case proxy
  }

  /// On whose behalf there is this connection.
  public let source: Source

  /// How many bytes it takes; the connection's own follow.
  public let length: Int

  /// The most bytes that one may take: what nginx takes. Addresses take 232 at most; the rest is for what is told about
  /// TLS, the host name and the like, which is skipped here.
  public static let maximumLength = 4096

  /// Reads the header that `bytes` begin with.
  ///
  /// - Parameter bytes: All bytes that have arrived on the connection so far. When more have arrived, call again with
  ///   all of them: an error is found as soon as its byte is there, and is the same however the bytes were split.
  /// - Returns: Nil if the header is not complete.
  /// - Throws: ``ProxyHeaderError`` if the bytes are not a PROXY header, or not a valid one.
  public static func parse(_ bytes: Span<UInt8>) throws(ProxyHeaderError) -> ProxyHeader? {
    guard !bytes.isEmpty else { return nil }
    return bytes[0] == UInt8(ascii: "P") ? try parseText(bytes) : try parseBinary(bytes)
  }
}

extension Span<UInt8> {
  /// Whether these bytes begin with `expected`, or are the beginning of it if they are fewer.
  func agrees(with expected: [UInt8]) -> Bool {
    (0..<Swift.min(count, expected.count)).allSatisfy { self[$0] == expected[$0] }
  }
}

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

/// Version 2: a signature, version and command, family and transport, the length of what follows, two addresses and two
/// ports, and then whatever else the proxy tells, each with type and length.
extension ProxyHeader {
  /// What no other protocol begins with.
  private static let signature: [UInt8] = [
    0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a,
  ]

  /// Up to and with the length.
  private static let fixedLength = 16

  static func parseBinary(_ bytes: Span<UInt8>) throws(ProxyHeaderError) -> ProxyHeader? {
    guard bytes.agrees(with: signature) else { throw .missing }
    let versionAndCommand = signature.count
    guard versionAndCommand < bytes.count else { return nil }
    guard let command = Command(rawValue: bytes[versionAndCommand]) else { throw .malformedBinary }
    guard versionAndCommand + 1 < bytes.count else { return nil }
    let (family, transport) = (bytes[versionAndCommand + 1] >> 4, bytes[versionAndCommand + 1] & 0x0f)
    // Of what LOCAL comes with, only the length means anything.
    guard command == .local || (family <= 3 && transport <= 2) else { throw .malformedBinary }
    guard bytes.count >= fixedLength else { return nil }
    let length = fixedLength + Int(bytes[14]) << 8 + Int(bytes[15])
    guard length <= maximumLength else { throw .tooLong }
    guard bytes.count >= length else { return nil }
    guard command == .proxy else { return ProxyHeader(source: .proxy, length: length) }
    // Without a family there is nothing that says where the addresses end.
    guard family > 0, transport > 0 else { return ProxyHeader(source: .unknown, length: length) }
    return ProxyHeader(source: try source(in: bytes.extracting(..<length), family: family), length: length)
  }

  /// Version 2 and the command.
  private enum Command: UInt8 {
    case local = 0x20
    case proxy = 0x21
  }

  /// - Parameters:
  ///   - header: The whole.
  ///   - family: 1 for IPv4, 2 for IPv6, 3 for a Unix-domain socket.
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

  /// Goes through what follows the addresses: it must be whole, and the checksum right if there is one.
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

  /// PP2_TYPE_CRC32C.
  private static let crc32c: UInt8 = 3

  /// A receiver that can compute the checksum must verify it. The checksum's own four bytes count as zero (2.2.3).
  private static func check(_ header: Span<UInt8>, checksumAt place: Int) throws(ProxyHeaderError) {
    var crc = CRC32C()
    var said: UInt32 = 0
    for index in header.indices {
      let isChecksum = place..<place + 4 ~= index
      if isChecksum { said = said << 8 | UInt32(header[index]) }
      crc.add(isChecksum ? 0 : header[index])
    }
    guard crc.value == said else { throw .wrongChecksum }
  }
}

/// Why a connection has no PROXY header that can be believed.
public enum ProxyHeaderError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The connection begins with something else.
  case missing
  /// It begins like a header of version 1, and goes on in a way that none does.
  case malformedText
  /// The same of version 2.
  case malformedBinary
  /// It is longer than ``ProxyHeader/maximumLength``.
  case tooLong
  /// Its checksum is of other bytes.
  case wrongChecksum
  /// It did not come in time, or not all of it.
  case incomplete

  /// A clause for a log: what there is instead.
  public var description: String {
    switch self {
    case .missing: "the connection begins with something else"
    case .malformedText: "the header of version 1 is malformed"
    case .malformedBinary: "the header of version 2 is malformed"
    case .tooLong: "the header is longer than \(ProxyHeader.maximumLength) bytes"
    case .wrongChecksum: "the header's checksum is wrong"
    case .incomplete: "the header did not come, or not all of it"
    }
  }
}

/// The checksum of RFC 9260 appendix A (Castagnoli's polynomial), bit by bit: once a connection, of some dozen bytes.
struct CRC32C {
  private var register = UInt32.max

  /// The checksum of what was added.
  var value: UInt32 { ~register }

  mutating func add(_ byte: UInt8) {
    register ^= UInt32(byte)
    for _ in 0..<8 {
      // The polynomial 0x1EDC6F41, its bits in reverse.
      register = register & 1 == 1 ? register >> 1 ^ 0x82F6_3B78 : register >> 1
    }
  }
}
