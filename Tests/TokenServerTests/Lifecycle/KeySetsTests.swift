import Access
import Glibc
import HTTP1
import HTTPMessages
import HTTPTypes
import TLS
import TestSupport
import Testing

@testable import ServerSettings
@testable import TokenServer

@Suite("The key sets of providers")
struct KeySetsTests {
  let provider: KeyProvider

  init() throws { provider = try KeyProvider() }

  private static let rules = JWTRules(issuer: "https://id.example.com/", audiences: ["music"])

  /// The refusal of a token, or nil if the token is valid.
  private func refusal(_ token: String, _ keys: JSONWebKeySet?) -> JWTRefusal? {
    guard let keys else { return .unknownKey }
    do throws(JWTRefusal) {
      _ = try JWT(compact: Array(token.utf8).span).verify(by: keys, rules: Self.rules, now: Glibc.time(nil))
      return nil
    } catch {
      return error
    }
  }

  // MARK: Fetching

  @Test("are fetched only after the start and verify the provider's tokens", .otherPrograms)
  func fetched() async throws {
    let ground = try KeySetGround()
    try ground.use([provider.source])
    #expect(try provider.requests() == 0)
    #expect(ground.keySets.table.present(provider.source) == nil)
    #expect(ground.keySets.counts == KeySetCounts(missing: 1))
    ground.keySets.begin()
    // The fetch happens without any request for the keys.
    try await until("the keys arrive") { ground.keySets.table.present(provider.source) != nil }
    let keys = ground.keySets.table.present(provider.source)
    #expect(keys?.count == 4)
    for algorithm in JWTAlgorithm.allCases {
      let token = try provider.mint("alg=\(algorithm.rawValue)")
      #expect(refusal(token, ground.keySets.table.present(provider.source)) == nil, "\(algorithm)")
    }
    #expect(refusal(try provider.mint("keys=unpublished&kid=es256-1"), keys) == .badSignature)
    #expect(refusal(try provider.mint("keys=unpublished"), keys) == .unknownKey)
    #expect(try provider.requests() == 1)
    #expect(try provider.state("accept") == "application/jwk-set+json, application/json")
    #expect(try provider.state("target") == "/jwks.json")
    ground.pass(7)
    #expect(ground.keySets.counts == KeySetCounts(fetches: 1, oldestAge: 7))
    #expect(ground.log.warnings.isEmpty)
  }

  @Test("are fetched on demand before the start", .otherPrograms)
  func firstNeed() async throws {
    let ground = try KeySetGround()
    try ground.use([provider.source])
    #expect(await ground.keySets.table.fresh(provider.source)?.count == 4)
  }

  @Test("that have arrived since a caller found none are not fetched again for that caller", .otherPrograms)
  func arrived() async throws {
    let ground = try KeySetGround()
    try ground.use([provider.source])
    _ = await ground.keySets.table.fresh(provider.source, isFirst: true)
    await ground.keySets.table.refresh([provider.source], lacking: [provider.source])
    #expect(try provider.requests() == 1)
    // One that found a set without its key causes a fetch at once.
    await ground.keySets.table.refresh([provider.source], lacking: [])
    #expect(try provider.requests() == 2)
  }

  @Test("share a fetch between concurrent callers", .otherPrograms)
  func shared() async throws {
    try provider.behave("hold")
    let ground = try KeySetGround()
    try ground.begin([provider.source])
    let source = provider.source
    let counts = try await withThrowingTaskGroup { group in
      for _ in 0..<50 { group.addTask { await ground.keySets.table.fresh(source)?.count } }
      try provider.waitUntilHolding(1)
      try provider.release()
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(counts == [Int?](repeating: 4, count: 50))
    // Callers that come after the end of the first fetch share a second fetch, as for an unknown key.
    #expect(try provider.requests() <= 2)
  }

  @Test("of several providers are fetched concurrently for one request", .otherPrograms)
  func concurrently() async throws {
    let second = try KeyProvider()
    let third = try KeyProvider()
    let providers = [provider, second, third]
    for provider in providers { try provider.behave("hold") }
    // Longer than the test waits: with sequential fetches the second provider would get no request in this time.
    let ground = try KeySetGround(
      timeouts: UpstreamTimeouts(connect: .seconds(600), firstByte: .seconds(600), whole: .seconds(600)))
    let sources = providers.map(\.source)
    try ground.use(Set(sources))
    let table = ground.keySets.table
    async let refreshed: Void = table.refresh(sources, lacking: sources)
    for provider in providers { try await provider.waitUntilItHolds() }
    for provider in providers { try provider.release() }
    await refreshed
    #expect(sources.allSatisfy { table.present($0)?.count == 4 })
  }

  @Test("stay available during a fetch", .otherPrograms)
  func presentMeanwhile() async throws {
    let ground = try KeySetGround()
    _ = try await ground.begin(having: provider.source)
    try provider.behave("hold")
    ground.pass(900)
    ground.keySets.refreshDue()
    try provider.waitUntilHolding(1)
    #expect(refusal(try provider.mint(), ground.keySets.table.present(provider.source)) == nil)
    try provider.release()
  }

  // MARK: Rotation

  @Test("are fetched again for an unknown key, at most every 30 seconds", .otherPrograms)
  func rotated() async throws {
    let ground = try KeySetGround()
    let keys = try await ground.begin(having: provider.source)
    let token = try provider.mint()
    try provider.rotate()
    let next = try provider.mint("alg=RS256")
    #expect(refusal(next, keys) == .unknownKey)
    #expect(refusal(next, await ground.keySets.table.fresh(provider.source)) == nil)
    #expect(refusal(token, ground.keySets.table.present(provider.source)) == .unknownKey)
    for _ in 0..<100 { _ = await ground.keySets.table.fresh(provider.source) }
    let requests = try provider.requests()
    try provider.rotate()
    let last = try provider.mint("alg=RS256")
    ground.pass(29)
    #expect(refusal(last, await ground.keySets.table.fresh(provider.source)) == .unknownKey)
    #expect(try provider.requests() == requests)
    ground.pass(1)
    #expect(refusal(last, await ground.keySets.table.fresh(provider.source)) == nil)
    #expect(try provider.requests() == requests + 1)
  }

  @Test("may be fetched again for a signature that fails under a known key, within the same limit", .otherPrograms)
  func replaced() async throws {
    let ground = try KeySetGround()
    let keys = try await ground.begin(having: provider.source)
    try provider.rotate(keepingNames: true)
    let next = try provider.mint()
    #expect(refusal(next, keys) == .badSignature)
    #expect(ground.keySets.table.mayFetch([provider.source]))
    #expect(refusal(next, await ground.keySets.table.fresh(provider.source)) == nil)
    ground.pass(29)
    #expect(!ground.keySets.table.mayFetch([provider.source]))
    ground.pass(1)
    #expect(ground.keySets.table.mayFetch([provider.source]))
    ground.keySets.close()
    #expect(!ground.keySets.table.mayFetch([provider.source]))
    #expect(!ground.keySets.table.mayFetch([.file("jwks.json")]))
  }

  @Test("are fetched again after the provider's max-age, and withdrawn keys are dropped", .otherPrograms)
  func age() async throws {
    try provider.behave("max-age-600")
    let ground = try KeySetGround()
    _ = try await ground.begin(having: provider.source)
    let token = try provider.mint()
    try provider.rotate(keepingOld: true)
    ground.pass(599)
    ground.keySets.refreshDue()
    #expect(try provider.requests() == 1)
    ground.pass(1)
    ground.keySets.refreshDue()
    try await until("the keys are fetched again") { ground.keySets.counts.fetches >= 2 }
    let keys = ground.keySets.table.present(provider.source)
    #expect(try provider.requests() == 2)
    #expect(refusal(token, keys) == nil)
    #expect(refusal(try provider.mint(), keys) == nil)
    try provider.rotate()
    ground.pass(600)
    ground.keySets.refreshDue()
    #expect(refusal(token, await ground.keySets.table.fresh(provider.source)) == .unknownKey)
  }

  // MARK: Failures

  /// A behaviour of the provider, and words of the log message.
  static let failures = [
    ("down", "refused"), ("close", "closed the connection"), ("status-500", "status 500"), ("status-404", "status 404"),
    ("status-203", "status 203"), ("redirect", "Write the address that it redirects to"), ("rubbish", "is a web page"),
    ("empty", "no usable key"), ("huge", "longer than 262144 bytes"), ("long", "could not read"),
    ("drip", "did not arrive in time"), ("hold", "127.0.0.1"),
  ]

  @Test("stay in use after a failed fetch, and the log gives the cause", .otherPrograms, arguments: failures)
  func kept(_ behaviour: String, _ words: String) async throws {
    let timeouts = UpstreamTimeouts(connect: .seconds(5), firstByte: .milliseconds(500), whole: .seconds(1))
    let ground = try KeySetGround(timeouts: timeouts)
    _ = try await ground.begin(having: provider.source)
    let token = try provider.mint()
    try provider.behave(behaviour)
    ground.pass(900)
    ground.keySets.refreshDue()
    #expect(refusal(token, await ground.keySets.table.fresh(provider.source)) == nil)
    #expect(ground.keySets.counts == KeySetCounts(fetches: 2, failures: 1, oldestAge: 900))
    let sentence = try #require(ground.log.warnings.first)
    #expect(sentence.contains(words) && sentence.hasSuffix("The earlier keys stay in use."), "\(sentence)")
    #expect(sentence.hasPrefix("The server could not fetch the keys at \(provider.url)/jwks.json. "))

    try provider.behave("ok")
    try provider.release()
    try provider.rotate()
    #expect(refusal(token, await ground.keySets.table.fresh(provider.source)) == nil, "not at once")
    ground.pass(1)
    ground.keySets.refreshDue()
    #expect(refusal(try provider.mint(), await ground.keySets.table.fresh(provider.source)) == nil)
    #expect(ground.log.warnings.count == 1)
  }

  @Test("are fetched after the provider's recovery if the first fetch failed", .otherPrograms)
  func downAtStart() async throws {
    try provider.behave("down")
    let ground = try KeySetGround()
    try ground.begin([provider.source])
    #expect(await ground.keySets.table.fresh(provider.source) == nil)
    #expect(
      ground.log.warnings.first?.hasSuffix("Until the server has them, it accepts no JWT that they sign.") == true)
    #expect(ground.keySets.counts == KeySetCounts(fetches: 1, failures: 1, missing: 1))
    try provider.behave("ok")
    #expect(await ground.keySets.table.fresh(provider.source) == nil)
    ground.pass(1)
    #expect(await ground.keySets.table.fresh(provider.source)?.count == 4)
  }

  @Test("are not accepted from a provider with an untrusted certificate", .otherPrograms)
  func untrusted() async throws {
    let ground = try KeySetGround()
    let source = KeySetSource.url("\(provider.url)/jwks.json", caFile: nil)
    try ground.begin([source])
    #expect(await ground.keySets.table.fresh(source) == nil)
    #expect(try provider.requests() == 0)
    let warning = try #require(ground.log.warnings.first)
    #expect(warning.contains("certificate") && warning.contains("jwt.caFile"), "\(warning)")
    #expect(!warning.contains("catalog.caFile"), "\(warning)")
  }

  @Test("do not delay the shutdown", .otherPrograms)
  func closed() async throws {
    try provider.behave("hold")
    let ground = try KeySetGround()
    try ground.begin([provider.source])
    let source = provider.source
    async let keys = ground.keySets.table.fresh(source)
    try provider.waitUntilHolding(1)
    ground.keySets.close()
    #expect(await keys == nil)
    #expect(await ground.keySets.table.fresh(source) == nil)
    #expect(ground.log.warnings.isEmpty)
  }

  @Test("are fetched through the proxy of HTTPS_PROXY", .otherPrograms)
  func tunnel() async throws {
    let process = try ChildProcess("python3", [KeyProvider.script("connect_proxy.py")])
    let proxy = try #require(try process.line()).dropFirst("Listening on ".count)
    let ground = try KeySetGround()
    try ground.begin([provider.source], environment: ["HTTPS_PROXY": "\(proxy)"])
    #expect(await ground.keySets.table.fresh(provider.source)?.count == 4)
    #expect(try process.line()?.hasPrefix("CONNECT 127.0.0.1:") == true)
  }

  // MARK: Reload

  @Test("survive a reload, and are dropped when no setting names them", .otherPrograms)
  func reloaded() async throws {
    let ground = try KeySetGround()
    _ = try await ground.begin(having: provider.source)
    let other = KeySetSource.url("\(provider.url)/other.json", caFile: provider.directory.path(of: "tls.crt"))
    try ground.use([provider.source, other])
    #expect(ground.keySets.table.present(provider.source)?.count == 4)
    try await until("the other keys arrive") { ground.keySets.table.present(other) != nil }
    #expect(try provider.requests() == 2)
    #expect(try provider.state("target") == "/other.json")
    try ground.use([other])
    #expect(ground.keySets.table.present(provider.source) == nil)
    #expect(await ground.keySets.table.fresh(provider.source) == nil)
    #expect(ground.keySets.table.present(other)?.count == 4)
    #expect(ground.keySets.counts == KeySetCounts(fetches: 2, oldestAge: 0))
  }

  @Test("of a provider with the system's CAs keep those that were read before a reload", .otherPrograms)
  func systemAuthorities() async throws {
    let source = KeySetSource.url("\(provider.url)/jwks.json", caFile: nil)
    let ground = try KeySetGround()
    func use(systemStore: String) throws {
      let (files, proxies) = (FileLoader(reading: [source]).keySets, ProxyEnvironment([:]))
      var named = try NamedKeySets([source], files: files, proxies: proxies)
      named.places[source] = try KeySetPlace(
        url: ServiceURL("\(provider.url)/jwks.json"), authorities: TLSClientContext(authorities: PEMFile(systemStore)),
        proxies: proxies)
      ground.keySets.use(ground.keySets.table(of: named))
    }
    try use(systemStore: provider.directory.path(of: "tls.crt"))
    try use(systemStore: provider.directory.write(Certificate(key: KeyPair()).pem, to: "other.crt"))
    #expect(await ground.keySets.table.fresh(source)?.count == 4)
  }

  @Test("have an error message for each unexpected status", .otherPrograms)
  func statuses() {
    #expect(KeySetFetch.sentence(of: .movedPermanently).contains("Write the address"))
    #expect(KeySetFetch.sentence(of: .notModified).contains("had no condition"))
    #expect(!KeySetFetch.sentence(of: .notModified).contains("address"))
    #expect(KeySetFetch.sentence(of: .multipleChoices) == "The response has status 300.")
  }

  @Test("have a lifetime of max-age minus Age", .otherPrograms)
  func lifetimes() {
    for (cacheControl, age, expected) in [
      ("max-age=600", nil, 600), ("public, Max-Age=600, must-revalidate", nil, 600), ("max-age=\"600\"", nil, 600),
      ("max-age=600", "500", 100), ("max-age=600", "700", -100), ("max-age=600", "x", 600), ("max-age", nil, nil),
      ("max-age=", nil, nil), ("max-age=-1", nil, nil), ("max-age=99999999999999999999", nil, nil),
      ("s-maxage=600", nil, nil), ("no-store", nil, nil), (nil, nil, nil),
    ] as [(String?, String?, Int?)] {
      var fields: FieldLines = [:]
      fields[.cacheControl] = cacheControl
      fields[.age] = age
      #expect(KeySetFetch.maxAge(fields) == expected, "\(cacheControl ?? "-")")
    }
  }
}
