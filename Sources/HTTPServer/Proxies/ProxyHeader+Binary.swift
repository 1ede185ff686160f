import EventLoop

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
