import Bytes
import HTTPMessages
import Testing

@testable import Access

@Suite("The cost of a JWT")
struct JWTCostTests {
  private static let source = KeySetSource.url("https://id.example.com/jwks", caFile: nil)

  private static func client(_ id: String, _ source: KeySetSource, audience: String = "music") -> Client {
    Client(id: id, credential: .jwt(JWTRules(issuer: JWTSamples.issuer, audiences: [audience]), source))
  }

  private static let policy = AccessPolicy(clients: [client("app", source)], anonymous: nil)

  private static func presented(_ token: String) -> PresentedCredentials {
    PresentedCredentials(credential: .bearer(Array(token.utf8)[...]))
  }

  /// A token of the issuer's `kid`, signed by another key.
  private static func forged() throws -> String {
    try TestKey(.p256).token(header: #"{"alg":"ES256","kid":"ec"}"#, claims: JWTSamples.claims)
  }

  private static func wanted(_ result: AccessPolicy.Identification) throws -> AccessPolicy.WantedKeys {
    guard case .keysWanted(let wanted) = result else { throw Unexpected() }
    return wanted
  }

  private static func reason(_ result: AccessPolicy.Identification) -> String {
    switch result {
    case .known(let caller): "known as \(caller.client.id)"
    case .denied(let denial): "\(denial.reason)"
    case .keysWanted: "keys wanted"
    }
  }

  private struct Unexpected: Error {}

  @Test("is one signature, and after a fetch another one only by a new key")
  func once() throws {
    let (old, new) = (try JWTSamples.keys.set(), try TestKey(.p256))
    let replaced = try keySet([new.jwk("ec")])
    let (now, token) = (JWTSamples.now, try Self.forged())
    let wanted = try Self.wanted(Self.policy.identify(Self.presented(token), now: now, keys: { _ in old }))
    #expect(wanted.tried.count == 1 && wanted.sources == [Self.source])
    #expect(wanted.denial.reason.description == "jwt_bad_signature" && wanted.denial.isGuess)
    // The same keys again: the key that failed decides without another try.
    let again = Self.policy.identify(Self.presented(token), now: now, after: wanted, keys: { _ in old })
    #expect(Self.reason(again) == "jwt_bad_signature")
    let valid = new.token(header: #"{"alg":"ES256","kid":"ec"}"#, claims: JWTSamples.claims)
    let first = try Self.wanted(Self.policy.identify(Self.presented(valid), now: now, keys: { _ in old }))
    let second = Self.policy.identify(Self.presented(valid), now: now, after: first, keys: { _ in replaced })
    #expect(Self.reason(second) == "known as app")
    // A key that has failed is not tried again even if it would succeed.
    let tried = AccessPolicy.WantedKeys(
      sources: [], lacking: [], denial: wanted.denial,
      tried: try replaced.candidates(for: .es256, keyID: "ec").map(\.key))
    let skipped = Self.policy.identify(Self.presented(valid), now: now, after: tried, keys: { _ in replaced })
    #expect(Self.reason(skipped) == "jwt_bad_signature")
  }

  @Test("may fetch keys if a key of another kind has its kid, or several have")
  func otherKinds() throws {
    let token = try Self.forged()
    for (label, keys) in [
      ("another kind", try keySet([JWTSamples.keys.rsa.get().jwk("ec")])),
      ("three keys", try keySet((0..<3).map { _ in try TestKey(.p256).jwk("ec") })),
      ("no key", try keySet([JWTSamples.keys.rsa.get().jwk("rsa")])),
    ] {
      let result = Self.policy.identify(Self.presented(token), now: JWTSamples.now, keys: { _ in keys })
      #expect(try Self.wanted(result).tried.isEmpty, "\(label)")
    }
  }

  @Test("is two signatures at most, however many key sets its issuer has, and one if they have the same key")
  func severalSets() throws {
    let sources = (0..<5).map { KeySetSource.file("\($0).json") }
    let policy = AccessPolicy(
      clients: sources.enumerated().map { Self.client("c\($0)", $1) }, anonymous: nil)
    let sets = try sources.reduce(into: [KeySetSource: JSONWebKeySet]()) { sets, source in
      sets[source] = try keySet([TestKey(.p256).jwk("ec")])
    }
    let token = try Self.forged()
    let different = policy.identify(Self.presented(token), now: JWTSamples.now, keys: { sets[$0] })
    #expect(try Self.wanted(different).tried.count == 2)
    let shared = try JWTSamples.keys.set()
    let same = policy.identify(Self.presented(token), now: JWTSamples.now, keys: { _ in shared })
    #expect(try Self.wanted(same).tried.count == 1)
  }

  @Test("is two signatures during a rotation, with one kid or without, and a failure then counts as two attempts")
  func rotation() throws {
    let (old, new, stranger) = (try TestKey(.p256), try TestKey(.p256), try TestKey(.p256))
    for (header, keyID) in [(#"{"alg":"ES256","kid":"a"}"#, "a"), (#"{"alg":"ES256"}"#, nil)] {
      let keys = try keySet([old.jwk(keyID), new.jwk(keyID), TestKey(.p256).jwk("another")])
      func identify(_ key: TestKey, after wanted: AccessPolicy.WantedKeys? = nil) -> AccessPolicy.Identification {
        let token = key.token(header: header, claims: JWTSamples.claims)
        return Self.policy.identify(Self.presented(token), now: JWTSamples.now, after: wanted, keys: { _ in keys })
      }
      for key in [old, new] { #expect(Self.reason(identify(key)) == "known as app", "\(header)") }
      let wanted = try Self.wanted(identify(stranger))
      #expect(wanted.tried.count == 2 && wanted.denial.attempts == 2, "\(header)")
      // After the fetch, which brought no other keys.
      guard case .denied(let denial) = identify(stranger, after: wanted) else { throw Unexpected() }
      #expect(denial.attempts == 2 && denial.isGuess, "\(header)")
    }
    let one = Self.policy.identify(
      Self.presented(try Self.forged()), now: JWTSamples.now, keys: { _ in try? JWTSamples.keys.set() })
    #expect(try Self.wanted(one).denial.attempts == 1)
  }

  @Test("is nothing if the caller has to wait, and no API key waits")
  func postponed() throws {
    let denial = Denial(.rateLimited, "failed_attempts", "Wait.")
    let key = "an.api.key"
    let policy = AccessPolicy(
      clients: [
        Self.client("app", Self.source),
        Client(id: "key", credential: .apiKeys([try APIKeyDigest(of: Array(key.utf8).span)])),
      ], anonymous: nil)
    for (token, reason) in [
      (try JWTSamples.token(), "failed_attempts"), ("not.a.jwt", "failed_attempts"), (key, "known as key"),
      ("wrong", "unknown_api_key"),
    ] {
      let result = policy.identify(
        Self.presented(token), now: JWTSamples.now, postpones: { _ in denial },
        keys: { _ in
          Issue.record("The policy looked for keys.")
          return nil
        })
      #expect(Self.reason(result) == reason, "\(token)")
    }
  }
}
