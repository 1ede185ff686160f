/// XXH64 (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md) with the seed 0: a 64-bit hash of content. Unlike
/// Swift's own hasher, the hash is the same in every process and replica.
///
/// The hash distinguishes versions of one URL. Apple writes them, so no adversary can choose them. A caller would get a
/// wrong 304 only if two versions had the same 64 bits and the same length. So no cryptographic hash is needed.
enum ContentHash {
  static func of(_ bytes: [UInt8]) -> UInt64 {
    // Safe: all bytes of an array are initialised.
    var rest = unsafe bytes.span.bytes
    var hash = prime5
    if rest.byteCount >= 32 { hash = lanes(&rest) }
    hash &+= UInt64(bytes.count)
    while rest.byteCount >= 8 { hash = rotated(hash ^ round(0, take(&rest)), 27) &* prime1 &+ prime4 }
    if rest.byteCount >= 4 {
      let word: UInt32 = take(&rest)
      hash = rotated(hash ^ UInt64(word) &* prime1, 23) &* prime2 &+ prime3
    }
    while !rest.isEmpty {
      let byte: UInt8 = take(&rest)
      hash = rotated(hash ^ UInt64(byte) &* prime5, 11) &* prime1
    }
    hash = (hash ^ hash >> 33) &* prime2
    hash = (hash ^ hash >> 29) &* prime3
    return hash ^ hash >> 32
  }

  /// Takes all whole groups of 32 bytes, each of whose four words goes to a lane of its own, and returns the lanes' sum.
  private static func lanes(_ rest: inout RawSpan) -> UInt64 {
    var (a, b, c, d) = (prime1 &+ prime2, prime2, UInt64(0), 0 &- prime1)
    while rest.byteCount >= 32 {
      a = round(a, take(&rest))
      b = round(b, take(&rest))
      c = round(c, take(&rest))
      d = round(d, take(&rest))
    }
    var sum = rotated(a, 1) &+ rotated(b, 7) &+ rotated(c, 12) &+ rotated(d, 18)
    for lane in [a, b, c, d] { sum = (sum ^ round(0, lane)) &* prime1 &+ prime4 }
    return sum
  }

  @inline(__always)
  private static func round(_ lane: UInt64, _ word: UInt64) -> UInt64 {
    rotated(lane &+ word &* prime2, 31) &* prime1
  }

  @inline(__always)
  private static func rotated(_ word: UInt64, _ count: UInt64) -> UInt64 { word << count | word >> (64 - count) }

  /// Removes a little-endian number from the front of `rest`.
  @inline(__always)
  private static func take<Number: FixedWidthInteger & BitwiseCopyable>(_ rest: inout RawSpan) -> Number {
    // Safe: every bit pattern is a number, and RawSpan checks the bounds.
    let number = unsafe rest.unsafeLoadUnaligned(as: Number.self)
    rest = rest.extracting(MemoryLayout<Number>.size...)
    return Number(littleEndian: number)
  }

  private static let prime1: UInt64 = 0x9e37_79b1_85eb_ca87
  private static let prime2: UInt64 = 0xc2b2_ae3d_27d4_eb4f
  private static let prime3: UInt64 = 0x1656_67b1_9e37_79f9
  private static let prime4: UInt64 = 0x85eb_ca77_c2b2_ae63
  private static let prime5: UInt64 = 0x27d4_eb2f_1656_67c5
}
