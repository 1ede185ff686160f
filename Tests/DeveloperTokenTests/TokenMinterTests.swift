import Bytes
import HTTPMessages
import TestSupport
import Testing

@testable import DeveloperToken

@Suite("The minter")
struct TokenMinterTests {
  private let now = Samples.now

  @Test("mints tokens that the inspector accepts")
  func sound() throws {
    let minter = try Samples.minter()
    for origins in [[], [try Origin("https://app.example.com")]] {
      let token = try minter.token(origins: origins, now: now)
      #expect(token.issuedAt == now - 60 && token.expiresAt == now + 43_200 && token.refreshAfter == now + 21_600)
      #expect(token.origins == origins)
      let inspector = Inspector(key: minter.key.verificationKey, origin: origins.first, now: now)
      let inspection = inspector.inspect(token.string)
      #expect(inspection.isAcceptable && inspection.checks.allSatisfy { $0.verdict == .pass })
    }
  }

  @Test("reuses a token until half of its lifetime has passed")
  func reuse() throws {
    let minter = try Samples.minter()
    let first = try minter.token(now: now)
    #expect(try minter.token(ttl: 43_200, now: now + 21_599).compact == first.compact)
    #expect(minter.signatureCount == 1)
    let second = try minter.token(now: now + 21_600)
    #expect(second.compact != first.compact && minter.signatureCount == 2)
  }

  @Test("records the times of the latest tokens and the failures, for callers and for the upstream")
  func record() throws {
    let minter = try Samples.minter()
    #expect(minter.record(of: .caller).usual == nil && minter.record(of: .caller).lastMintedAt == nil)
    _ = try minter.token(now: now)
    _ = try minter.token(ttl: 60, now: now + 1)
    _ = try minter.token(origins: [try Origin("https://a.example")], now: now + 2)
    _ = try minter.token(now: now + 3)
    _ = try minter.freshToken(ttl: 3600, now: now + 4)
    #expect(throws: TokenError.self) { try minter.token(now: 0) }
    #expect(throws: TokenError.self) { try minter.token(ttl: 1, now: now) }
    let callers = minter.record(of: .caller)
    #expect(callers.usual == .init(mintedAt: now, expiresAt: now + 43_200), "a requested lifetime is not the usual one")
    #expect(callers.lastMintedAt == now + 2 && callers.failures == 1, "a wrong request is no failure")
    let upstream = minter.record(of: .upstream)
    #expect(upstream.usual == .init(mintedAt: now + 4, expiresAt: now + 3604))
    #expect(upstream.lastMintedAt == now + 4 && upstream.failures == 0)
    #expect(throws: TokenError.self) { try minter.freshToken(now: 0) }
    #expect(minter.record(of: .upstream).failures == 1)
  }

  @Test("treats origins as a set")
  func origins() throws {
    let minter = try Samples.minter()
    let (a, b) = try (Origin("https://a.example"), Origin("https://b.example"))
    let token = try minter.token(origins: [b, a, b], now: now)
    #expect(token.origins == [a, b])
    #expect(try minter.token(origins: [a, b], now: now).compact == token.compact)
    _ = try minter.token(origins: [a], now: now)
    _ = try minter.token(now: now)
    _ = try minter.token(ttl: 60, now: now)
    #expect(minter.signatureCount == 4)
  }

  @Test("returns a token that is valid now after the clock jumped", arguments: [-86_400, -1, 1, 43_200, 31_536_000])
  func clockJumps(by jump: Int) throws {
    let minter = try Samples.minter()
    _ = try minter.token(now: now)
    for time in [now + jump, now, now + jump, now + jump + 1] {
      let token = try minter.token(now: time)
      #expect(token.issuedAt <= time && 2 * (token.expiresAt - time) >= 43_200)
      #expect(token.expiresAt - time <= TokenPolicy.maximumLifetime)
      #expect(token.refreshAfter >= time)
    }
  }

  @Test("refuses to mint while the clock is implausible, and mints again after the clock is set")
  func implausibleClock() throws {
    let minter = try Samples.minter()
    #expect(throws: TokenError.implausibleClock(now: 0)) { try minter.token(now: 0) }
    #expect(try minter.token(now: now).issuedAt == now - 60)
  }

  @Test("refuses lifetimes and numbers of origins out of bounds")
  func bounds() throws {
    let minter = try Samples.minter()
    #expect(throws: TokenError.ttlTooShort(requested: 59, minimum: 60)) { try minter.token(ttl: 59, now: now) }
    #expect(throws: TokenError.ttlTooLong(requested: 86_401, maximum: 86_400)) {
      try minter.token(ttl: 86_401, now: now)
    }
    let many = try (0..<33).map { try Origin("https://\($0).example") }
    #expect(throws: TokenError.tooManyOrigins(count: 33, maximum: 32)) { try minter.token(origins: many, now: now) }
    #expect(minter.signatureCount == 0)
  }

  @Test("refuses the same identifier for key and team")
  func sameIdentifiers() throws {
    let key = try Samples.key()
    let team = try TeamID(Samples.keyIDText)
    let error = try #require(throws: TokenError.self) { try TokenMinter(key: key, team: team, policy: TokenPolicy()) }
    #expect("\(error)".contains(Samples.keyIDText))
  }

  @Test("keeps no more tokens than its capacity")
  func capacity() throws {
    let minter = try Samples.minter(capacity: 3)
    for ttl in 60..<100 { _ = try minter.token(ttl: ttl, now: now) }
    #expect(minter.cachedTokens == 3 && minter.signatureCount == 40)
    for ttl in 97..<100 { _ = try minter.token(ttl: ttl, now: now) }
    #expect(minter.signatureCount == 40)
  }

  @Test("signs once for 64 concurrent threads, and once more when half of the lifetime has passed")
  func manyThreads() throws {
    let minter = try Samples.minter()
    for (round, time) in [now, now + 21_600, now + 100_000].enumerated() {
      let tokens = try Threads.run(64) { _ in try minter.token(now: time) }
      #expect(tokens.count == 64)
      #expect(minter.signatureCount == round + 1)
      for token in tokens { #expect(2 * (token.expiresAt - time) >= 43_200) }
    }
  }

  @Test("returns to each of many threads a token with the origin it requested")
  func manyClaims() throws {
    let minter = try Samples.minter(capacity: 8)
    let origins = try (0..<16).map { try Origin("https://\($0).example") }
    let results = try Threads.run(32) { thread in
      try (0..<200).allSatisfy { step in
        let origin = origins[(thread + step * 5) % 16]
        return try minter.token(origins: [origin], now: now + step).origins == [origin]
      }
    }
    #expect(results == [Bool](repeating: true, count: 32))
    #expect(minter.cachedTokens == 8)
  }

  @Test("a token has its SHA-256 for audits and never appears in a description", .otherPrograms)
  func audit() throws {
    let token = try Samples.minter().token(now: now)
    let directory = try TemporaryDirectory()
    let path = try directory.write(token.string, to: "token")
    #expect(try run("sha256sum", [path]).stdout.prefix(64) == String(hexadecimal: token.sha256.span))
    var shown = "\(token) \(String(reflecting: token))"
    dump(token, to: &shown)
    #expect(!shown.contains(token.string.prefix(20)))
  }
}
