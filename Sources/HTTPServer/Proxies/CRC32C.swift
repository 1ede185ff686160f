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
