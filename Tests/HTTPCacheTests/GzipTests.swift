import TestSupport
import Testing

@testable import HTTPCache

@Suite("gzip")
struct GzipTests {
  @Test("restores the original content", arguments: [1000, 65_535, 65_536, 65_537, 131_072, 300_000])
  func roundTrip(count: Int) throws {
    let bytes = Sample.json(count)
    let coded = try #require(Gzip.deflate(bytes))
    #expect(coded.count < bytes.count / 2)
    #expect(try Gzip.inflate(coded, limit: count) == bytes)
  }

  @Test("is skipped if the content would not get smaller")
  func inVain() {
    var random = SplitMix(seed: 1)
    #expect(Gzip.deflate((0..<2000).map { _ in UInt8.random(in: 0...255, using: &random) }) == nil)
    #expect(Gzip.deflate([]) == nil)
    #expect(Gzip.deflate([1]) == nil)
    // After the first part it is clear.
    let long = GradualCompression((0..<200_000).map { _ in UInt8.random(in: 0...255, using: &random) })
    while case .unfinished = long.advance() {}
    #expect(long.advance() == .finished(nil))
  }

  @Test("is decoded from several members")
  func members() throws {
    let one = try #require(Gzip.deflate(Sample.json(100)))
    let two = try #require(Gzip.deflate(Sample.json(70_000)))
    #expect(
      try Gzip.inflate(one + two + one, limit: 80_000) == Sample.json(100) + Sample.json(70_000) + Sample.json(100))
  }

  @Test("is refused if its content exceeds the limit, however small the coded form is")
  func bomb() throws {
    let bomb = try #require(Gzip.deflate([UInt8](repeating: 0x20, count: 8_000_000)))
    #expect(bomb.count < 10_000)
    #expect(throws: ContentCodingError.tooLarge(limit: 100_000)) { try Gzip.inflate(bomb, limit: 100_000) }
    #expect(throws: ContentCodingError.tooLarge(limit: 7_999_999)) { try Gzip.inflate(bomb, limit: 7_999_999) }
    #expect(try Gzip.inflate(bomb, limit: 8_000_000).count == 8_000_000)
  }

  @Test("is refused if truncated anywhere, or with extra bytes at the end")
  func damaged() throws {
    let coded = try #require(Gzip.deflate(Sample.json(500)))
    for count in 0..<coded.count {
      #expect(throws: ContentCodingError.malformed, "\(count)") {
        try Gzip.inflate(Array(coded.prefix(count)), limit: 1000)
      }
    }
    for tail in [[0], [0x1f, 0x8b], Array("garbage".utf8)] as [[UInt8]] {
      #expect(throws: ContentCodingError.malformed) { try Gzip.inflate(coded + tail, limit: 1000) }
    }
  }

  @Test("is refused if its checksum or length is damaged")
  func checksum() throws {
    let coded = try #require(Gzip.deflate(Sample.json(500)))
    for index in coded.count - 8..<coded.count {
      var damaged = coded
      damaged[index] ^= 0x10
      #expect(throws: ContentCodingError.malformed) { try Gzip.inflate(damaged, limit: 1000) }
    }
  }
}
