import Testing

@testable import DeveloperToken

@Suite("A token policy")
struct TokenPolicyTests {
  private static let cap = TokenPolicy.maximumLifetime

  @Test("has the documented defaults")
  func defaults() throws {
    let policy = try TokenPolicy()
    #expect((policy.ttl, policy.maxTTL, policy.backdate) == (43_200, 86_400, 60))
    #expect(policy.margin > 34, "a clock ahead by 34 seconds has been enough for a 401")
    #expect(try TokenPolicy(ttl: 1_000_000).maxTTL == 1_000_000)
  }

  static let invalid: [(label: String, ttl: Int, maxTTL: Int?, backdate: Int, margin: Int, says: String)] = [
    ("a ttl below a minute", 59, nil, 60, 300, "token.ttl"),
    ("a ttl above six months", cap + 1, nil, 60, 300, "15777000"),
    ("a negative ttl", -1, nil, 60, 300, "token.ttl"),
    ("the largest number", .max, nil, 60, 300, "token.ttl"),
    ("a maxTTL below ttl", 3600, 1800, 60, 300, "shorter than token.ttl"),
    ("a maxTTL above six months", 3600, cap + 1, 60, 300, "token.maxTTL"),
    ("a negative backdate", 3600, nil, -1, 300, "token.backdate"),
    ("a backdate of more than a day", 3600, nil, 86_401, 300, "token.backdate"),
    ("a negative margin", 3600, nil, 60, -1, "margin"),
    ("a margin of more than a day", 3600, nil, 60, 86_401, "margin"),
  ]

  @Test("that would make invalid tokens is refused with a sentence", arguments: invalid)
  func refused(label: String, ttl: Int, maxTTL: Int?, backdate: Int, margin: Int, says: String) throws {
    let error = try #require(throws: TokenPolicyError.self) {
      try TokenPolicy(ttl: ttl, maxTTL: maxTTL, backdate: backdate, margin: margin)
    }
    #expect(error.description.contains(says))
  }

  @Test(
    "keeps every token within both of Apple's limits and valid, for any combination of settings",
    arguments: [60, 3600, 43_200, cap - 301, cap - 300, cap - 60, cap - 1, cap], [0, 1, 60, 300, 301, 3600, 86_400])
  func caps(ttl: Int, backdate: Int) throws {
    for margin in [0, 60, 300, 86_400] {
      for now in [1_704_067_200, Samples.now, 253_402_300_799] {
        let policy = try TokenPolicy(ttl: ttl, backdate: backdate, margin: margin)
        let claims = try policy.claims(issuer: Samples.team(), lifetime: ttl, origins: [], now: now)
        #expect(claims.issuedAt == now - backdate)
        #expect(claims.expiresAt <= claims.issuedAt + Self.cap)
        #expect(claims.expiresAt <= now + Self.cap - margin)
        #expect(claims.expiresAt >= now + 60)
        #expect(claims.expiresAt <= now + ttl)
        #expect(ttl > Self.cap - 86_400 || claims.expiresAt == now + ttl, "only the cap shortens a lifetime")
      }
    }
  }

  @Test("refuses an implausible clock", arguments: [Int.min, -1, 0, 946_684_800, 1_704_067_199, .max])
  func implausibleClock(now: Int) throws {
    let policy = try TokenPolicy()
    let team = try Samples.team()
    #expect(throws: TokenError.implausibleClock(now: now)) {
      try policy.claims(issuer: team, lifetime: 3600, origins: [], now: now)
    }
  }

  static let requests: [(requested: Int?, lifetime: Int?)] = [
    (nil, 43_200), (60, 60), (86_400, 86_400), (59, nil), (0, nil), (-1, nil), (86_401, nil), (.max, nil), (.min, nil),
  ]

  @Test("allows requested lifetimes from one minute to maxTTL", arguments: requests)
  func lifetimes(requested: Int?, lifetime: Int?) throws {
    let policy = try TokenPolicy()
    guard let lifetime else {
      #expect(throws: TokenError.self) { try policy.lifetime(requested: requested) }
      return
    }
    #expect(try policy.lifetime(requested: requested) == lifetime)
  }
}
