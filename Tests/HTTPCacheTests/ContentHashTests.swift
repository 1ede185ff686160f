import Testing

@testable import HTTPCache

@Suite("The hash of a content")
struct ContentHashTests {
  /// From the reference implementation, xxHash 0.8: the hash of the bytes 0, 1, 2 … up to `count` bytes. The counts are
  /// those around whole words, groups of 4 bytes and groups of 32.
  static let vectors: [(count: Int, hash: UInt64)] = [
    (0, 0xef46_db37_51d8_e999),
    (1, 0xe934_a84a_db05_2768),
    (3, 0xe5c7_bb45_33bc_65dd),
    (4, 0xffce_d860_4453_cc1e),
    (7, 0x14cc_643f_630c_72d2),
    (8, 0x884a_1736_14b8_1b8d),
    (11, 0x652a_564a_9536_5aca),
    (31, 0xc346_d2b5_9b4d_8ee1),
    (32, 0xcbf5_9c51_16ff_32b4),
    (33, 0x0c53_5d1a_cafb_8ead),
    (63, 0xe26a_a9e2_a95f_8e4f),
    (64, 0xf7c6_7301_db67_13f0),
    (255, 0x0f7d_9750_7caa_d693),
  ]

  @Test("is XXH64", arguments: vectors)
  func vector(count: Int, hash: UInt64) {
    #expect(ContentHash.of((0..<count).map { UInt8($0) }) == hash)
  }
}
