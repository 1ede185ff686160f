import Bytes
import DeveloperToken
import Testing

@testable import TokenServer

/// Developer tokens that callers send to this server.
@Suite("A developer token of a caller")
struct OwnDeveloperTokensTests {
  private static let now = 1_795_000_000
  private static let team = "DEF123GHIJ"

  /// A key, and tokens that it has signed.
  private struct Ground {
    let key: SigningKey
    let judge: OwnDeveloperTokens

    init(_ keyID: String = "ABC123DEFG", replacing previous: OwnDeveloperTokens? = nil) throws {
      key = try SigningKey.generate(keyID: try KeyID(keyID))
      judge = OwnDeveloperTokens([key], team: try TeamID(OwnDeveloperTokensTests.team), replacing: previous)
    }

    func token(team: String = OwnDeveloperTokensTests.team, at time: Int = OwnDeveloperTokensTests.now) throws
      -> [UInt8]
    {
      let minter = try TokenMinter(key: key, team: try TeamID(team), policy: try TokenPolicy())
      return try minter.token(now: time).compact
    }
  }

  private static func verdict(
    _ judge: OwnDeveloperTokens, _ token: [UInt8], now: Int = now, mayVerify: Bool = true
  ) -> OwnDeveloperTokens.Recognition {
    judge.judge(token[...], now: now, mayVerify: { mayVerify })
  }

  @Test("of an own key is own, and is verified once")
  func own() throws {
    let ground = try Ground()
    let token = try ground.token()
    #expect(Self.verdict(ground.judge, token, mayVerify: false) != .own, "no verification is allowed")
    #expect(Self.verdict(ground.judge, token) == .own)
    #expect(Self.verdict(ground.judge, token, mayVerify: false) == .own, "it is remembered")
  }

  @Test("of a retired key is own without a verification, because its file is not read")
  func retired() throws {
    let old = try Ground("OLD123DEFG")
    let judge = OwnDeveloperTokens([try Ground().key], retired: [old.key.keyID], team: try TeamID(Self.team))
    #expect(Self.verdict(judge, try old.token(), mayVerify: false) == .own)
    guard case .refused(_, isGuess: false) = Self.verdict(judge, try old.token(), now: Self.now + 20_000_000) else {
      Issue.record("An expired one is not refused.")
      return
    }
    #expect(Self.verdict(judge, try old.token(team: "ZZZ123GHIJ")) != .own)
  }

  @Test("that has expired is refused with its age, remembered or not, and is no guess")
  func expired() throws {
    let ground = try Ground()
    let token = try ground.token()
    let late = Self.now + 20_000_000
    for _ in 0..<2 {
      guard case .refused(let sentence, isGuess: false) = Self.verdict(ground.judge, token, now: late) else {
        Issue.record("not refused")
        return
      }
      #expect(sentence.contains("expired"))
      #expect(Self.verdict(ground.judge, token) == .own)
    }
  }

  @Test("of another team, key or signature is refused without a verification that the server need not make")
  func foreign() throws {
    let (ground, other) = (try Ground(), try Ground("XYZ987WVUT"))
    var verifications = 0
    func sentence(_ token: [UInt8]) -> String? {
      let verdict = ground.judge.judge(token[...], now: Self.now) {
        verifications += 1
        return true
      }
      guard case .refused(let sentence, isGuess: true) = verdict else { return nil }
      return sentence
    }
    #expect(sentence(try ground.token(team: "ZZZ123GHIJ"))?.contains("another team") == true)
    #expect(sentence(try other.token())?.contains("a key that this server does not have") == true)
    #expect(verifications == 0)
    var forged = try ground.token()
    let place = forged.count - 10
    forged[place] = forged[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
    #expect(sentence(forged)?.contains("signature") == true)
    #expect(verifications == 1)
    let sameID = try Ground()
    #expect(sentence(try sameID.token())?.contains("signature") == true, "another key with the same ID")
  }

  /// Anybody can write such a token: the team and the key ID are in every developer token.
  @Test(
    "with an exp that is no time is refused",
    arguments: ["-1", "-9223372036854775808", "9223372036854775808", "1e300", "1.5", "null", "\"1\""])
  func exp(_ exp: String) throws {
    var token: [UInt8] = []
    for part in [#"{"alg":"ES256","kid":"ABC123DEFG"}"#, #"{"iss":"\#(Self.team)","exp":\#(exp)}"#, "no signature"] {
      if !token.isEmpty { token.append(UInt8(ascii: ".")) }
      Base64.appendURL(Array(part.utf8).span, to: &token)
    }
    guard case .refused(let sentence, isGuess: true) = Self.verdict(try Ground().judge, token) else {
      Issue.record("not refused")
      return
    }
    #expect(sentence.contains("not one that Apple takes"))
  }

  @Test("counts after its key was replaced, until it expires", arguments: [true, false])
  func replaced(_ isKept: Bool) throws {
    let old = try Ground()
    let token = try old.token()
    let new = try Ground("XYZ987WVUT", replacing: isKept ? old.judge : nil)
    #expect((Self.verdict(new.judge, token) == .own) == isKept)
  }

  @Test(
    "is not any other text",
    arguments: [
      "", "key", "a.b.c", "..", "mkts_abc", "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUifQ.AAAA",
      "eyJhbGciOiJFUzI1NiJ9.e30.AAAA", String(repeating: "a", count: 20_000) + ".b.c",
    ])
  func other(_ text: String) throws {
    #expect(Self.verdict(try Ground().judge, Array(text.utf8)) == .other)
  }
}
