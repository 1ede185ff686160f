import DeveloperToken
import Glibc

/// Developer tokens.
enum Tokens {
  static func measure() throws -> [Measurement] {
    let key = try SigningKey.generate(keyID: try KeyID("BENCH12345"))
    let minter = try TokenMinter(
      key: key, team: try TeamID("TEAM123456"), policy: try TokenPolicy(maxTTL: TokenPolicy.maximumLifetime - 600))
    let now = time(nil)
    return [
      try Measurement("token from the cache") { try minter.token(now: now).issuedAt },
      try missing(minter, now: now),
      try Measurement("token that is not kept") { try minter.freshToken(now: now).issuedAt },
      try signing(key),
    ]
  }

  /// Measures tokens with a new lifetime each time, which is not in the cache.
  private static func missing(_ minter: TokenMinter, now: Int) throws -> Measurement {
    var ttl = TokenPolicy.minimumTTL
    return try Measurement("token that the cache has not got") {
      ttl += 1
      return try minter.token(ttl: ttl, now: now).issuedAt
    }
  }

  private static func signing(_ key: SigningKey) throws -> Measurement {
    let input = [UInt8](repeating: UInt8(ascii: "x"), count: 150)
    var output: [UInt8] = []
    return try Measurement("signature of 150 bytes") {
      output.removeAll(keepingCapacity: true)
      try key.sign(input.span, appendingTo: &output)
      return output.count
    }
  }
}
