import Glibc
import HTTPMessages
import TestSupport
import Testing

@testable import DeveloperToken

@Suite("Five thousand tokens", .otherPrograms)
struct IndependentVerificationTests {
  // One in 256 has a short r, and one in 256 a short s: that none has is as likely as a wrong bit of memory, e^-20.
  private static let count = 5000
  /// Python with PyJWT and cryptography.
  private static let python = unsafe getenv("TEST_PYTHON").map { unsafe String(cString: $0) } ?? "python3"
  private static let script =
    String("\(#filePath)".split(separator: "/").dropLast(2).map { "/" + $0 }.joined())
    + "/Python/verify_tokens.py"

  @Test("are verified by OpenSSL and PyJWT from Python, some with a short r and some with a short s")
  func verified() throws {
    let directory = try TemporaryDirectory()
    let minter = try Samples.minter()
    let key = try directory.write(minter.key.publicKeyPEM, to: "public.pem")
    let tokens = try directory.write(try lines(minter), to: "tokens")
    let result = try run(Self.python, [Self.script, key, tokens])
    #expect(result.status == 0, "\(result.stderr)")
    let numbers = result.stdout.split(whereSeparator: \.isWhitespace).compactMap { Int($0) }
    try #require(numbers.count == 3)
    #expect(numbers[0] == Self.count)
    #expect(numbers[1] > 0 && numbers[2] > 0, "one in 256 should be short, of each")
  }

  private func lines(_ minter: TokenMinter) throws -> [UInt8] {
    let origins = try [
      [], [Origin("https://app.example.com")], [Origin("http://[::1]:1"), Origin("https://b.example")],
    ]
    var lines: [UInt8] = []
    for index in 0..<Self.count {
      let now = Samples.now + index
      let token = try minter.freshToken(ttl: 60 + index % 80_000, origins: origins[index % 3], now: now)
      lines += token.compact + [UInt8(ascii: " ")] + token.claims.json + [UInt8(ascii: "\n")]
    }
    return lines
  }
}
