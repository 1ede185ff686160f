import Testing

@testable import HTTPCache

@Suite("The hash of a content")
struct ContentHashTests {
  /// From the reference implementation's `vectors_sip64`: the hash of the bytes 0, 1, 2 … up to `count` bytes.
  static let vectors: [(count: Int, hash: UInt64)] = [
    (0, 0x726f_db47_dd0e_0e31),
    (1, 0x74f8_39c5_93dc_67fd),
    (7, 0xab02_00f5_8b01_d137),
    (8, 0x93f5_f579_9a93_2462),
    (15, 0xa129_ca61_49be_45e5),
  ]

  @Test("is SipHash-2-4", arguments: vectors)
  func vector(count: Int, hash: UInt64) {
    #expect(ContentHash.of((0..<count).map { UInt8($0) }) == hash)
  }
}
