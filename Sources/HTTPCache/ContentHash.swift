/// SipHash-2-4 (Aumasson and Bernstein, 2012) with a fixed key: a 64-bit hash of content. Unlike Swift's own hasher,
/// the hash is the same in every process and replica.
///
/// The hash distinguishes versions of one URL. Apple writes them, so no adversary can choose them. A caller would get a
/// wrong 304 only if two versions had the same 64 bits and the same length. So no cryptographic hash is needed.
struct ContentHash {
  private var v0: UInt64
  private var v1: UInt64
  private var v2: UInt64
  private var v3: UInt64

  private init(key: (UInt64, UInt64)) {
    v0 = key.0 ^ 0x736f_6d65_7073_6575
    v1 = key.1 ^ 0x646f_7261_6e64_6f6d
    v2 = key.0 ^ 0x6c79_6765_6e65_7261
    v3 = key.1 ^ 0x7465_6462_7974_6573
  }

  /// Returns the hash of `bytes`. The key is the key of the paper's test vectors.
  static func of(_ bytes: [UInt8]) -> UInt64 {
    var hash = ContentHash(key: (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908))
    // Safe: all bytes of an array are initialised.
    let raw = unsafe bytes.span.bytes
    let whole = bytes.count & ~7
    for offset in stride(from: 0, to: whole, by: 8) {
      // Safe: every bit pattern is a UInt64, and RawSpan checks the bounds.
      let word = unsafe raw.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt64.self)
      hash.take(UInt64(littleEndian: word))
    }
    var last = UInt64(truncatingIfNeeded: bytes.count) << 56
    for offset in whole..<bytes.count {
      last |= UInt64(bytes[offset]) << UInt64(8 * (offset - whole))
    }
    hash.take(last)
    return hash.finish()
  }

  private mutating func take(_ word: UInt64) {
    v3 ^= word
    round()
    round()
    v0 ^= word
  }

  private mutating func finish() -> UInt64 {
    v2 ^= 0xff
    for _ in 0..<4 { round() }
    return v0 ^ v1 ^ v2 ^ v3
  }

  private mutating func round() {
    v0 &+= v1
    v1 = v1 << 13 | v1 >> 51
    v1 ^= v0
    v0 = v0 << 32 | v0 >> 32
    v2 &+= v3
    v3 = v3 << 16 | v3 >> 48
    v3 ^= v2
    v0 &+= v3
    v3 = v3 << 21 | v3 >> 43
    v3 ^= v0
    v2 &+= v1
    v1 = v1 << 17 | v1 >> 47
    v1 ^= v2
    v2 = v2 << 32 | v2 >> 32
  }
}
