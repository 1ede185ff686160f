/// An ECDSA signature over P-256 in the form of JWS: `r‖s`, each 32 bytes, big-endian, left-padded (RFC 7518 §3.4).
package struct ECDSASignature {
  package static let count = 64
  private static let half = 32
  private static let integerTag: UInt8 = 0x02
  private static let sequenceTag: UInt8 = 0x30
  /// The largest size of `SEQUENCE { INTEGER, INTEGER }`, with two integers of 33 bytes.
  package static let longestDER = 72
  /// The `SubjectPublicKeyInfo` of a key up to the coordinates of its uncompressed point (RFC 5480 §2).
  package static let keyPrefix: [UInt8] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE,
    0x3D, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
  ]

  package var raw = InlineArray<64, UInt8>(repeating: 0)

  /// Copies the signature from a token. Returns nil unless it has 64 bytes.
  package init?(raw bytes: Span<UInt8>) {
    guard bytes.count == Self.count else { return nil }
    for index in bytes.indices { raw[index] = bytes[index] }
  }

  /// Parses the DER that OpenSSL produces (RFC 3279 §2.2.3). Returns nil unless `der` is the only valid encoding.
  package init?(der: Span<UInt8>) {
    // The contents never exceed 70 bytes, so the length is a single byte (X.690 §8.1.3.4 and §10.1).
    guard der.count >= 8, der.count <= Self.longestDER, der[0] == Self.sequenceTag, Int(der[1]) == der.count - 2,
      let afterR = readInteger(in: der, at: 2, endingAt: Self.half),
      let afterS = readInteger(in: der, at: afterR, endingAt: Self.count),
      afterS == der.count
    else { return nil }
  }

  /// Reads a positive INTEGER at `start` into the 32 bytes that end at `end`. Returns the index after it, or nil.
  private mutating func readInteger(in der: Span<UInt8>, at start: Int, endingAt end: Int) -> Int? {
    guard start + 2 < der.count, der[start] == Self.integerTag else { return nil }
    var first = start + 2
    let stop = first + Int(der[start + 1])
    guard first < stop, stop <= der.count, der[first] < 0x80 else { return nil }
    if der[first] == 0 {
      // A leading zero is valid only before a set sign bit (X.690 §8.3.2). Neither r nor s can be zero.
      guard first + 1 < stop, der[first + 1] >= 0x80 else { return nil }
      first += 1
    }
    guard stop - first <= Self.half else { return nil }
    for index in first..<stop { raw[end - (stop - index)] = der[index] }
    return stop
  }

  /// The DER form, which OpenSSL verifies.
  package var der: [UInt8] {
    var integers: [UInt8] = []
    appendInteger(from: 0, to: &integers)
    appendInteger(from: Self.half, to: &integers)
    return [Self.sequenceTag, UInt8(integers.count)] + integers
  }

  private func appendInteger(from start: Int, to output: inout [UInt8]) {
    let end = start + Self.half
    var first = start
    while first < end - 1, raw[first] == 0 { first += 1 }
    let needsZero = raw[first] >= 0x80
    output.append(Self.integerTag)
    output.append(UInt8(end - first + (needsZero ? 1 : 0)))
    if needsZero { output.append(0) }
    for index in first..<end { output.append(raw[index]) }
  }
}
