import Access
import HTTPMessages
import TestSupport
import Testing

@testable import TokenServer

@Suite("Keys that an issuer's discovery document names", .otherPrograms)
struct KeyDiscoveryTests {
  let provider: KeyProvider

  init() throws { provider = try KeyProvider() }

  @Test("are fetched, with and without a path in the issuer", arguments: ["/", "/tenant/v2.0", "/realms/music"])
  func discovered(_ path: String) async throws {
    let ground = try KeySetGround()
    #expect(try await ground.begin(having: provider.issuer(path))?.count == 4)
    #expect(try provider.discoveries() == 1 && provider.requests() == 1)
    #expect(try provider.state("target") == "/jwks.json")
    #expect(ground.log.warnings.isEmpty)
  }

  @Test("cost one request for an unknown key, and two if the document is older than five minutes")
  func cached() async throws {
    let (ground, source) = (try KeySetGround(), provider.issuer())
    _ = try await ground.begin(having: source)
    _ = await ground.keySets.table.fresh(source)
    #expect(try provider.discoveries() == 1 && provider.requests() == 2)
    ground.pass(299)
    _ = await ground.keySets.table.fresh(source)
    #expect(try provider.discoveries() == 1 && provider.requests() == 3)
    ground.pass(30)
    _ = await ground.keySets.table.fresh(source)
    #expect(try provider.discoveries() == 2 && provider.requests() == 4)
  }

  @Test("are taken from another address once the document names it")
  func moved() async throws {
    let (ground, source) = (try KeySetGround(), provider.issuer())
    _ = try await ground.begin(having: source)
    try provider.behave("discovery-other")
    ground.pass(900)
    ground.keySets.refreshDue()
    _ = await ground.keySets.table.fresh(source)
    #expect(try provider.state("target") == "/other.json")
  }

  @Test("are asked for again if they do not arrive from the address that the server knows")
  func doubtful() async throws {
    let (ground, source) = (try KeySetGround(), provider.issuer())
    _ = try await ground.begin(having: source)
    try provider.behave("status-404")
    _ = await ground.keySets.table.fresh(source)
    #expect(ground.keySets.counts.failures == 1)
    #expect(try provider.discoveries() == 1)
    #expect(ground.log.warnings.last?.contains("/jwks.json. The response has status 404.") == true)
    try provider.behave("discovery-other")
    ground.pass(30)
    #expect(await ground.keySets.table.fresh(source)?.count == 4)
    #expect(try provider.discoveries() == 2)
    #expect(try provider.state("target") == "/other.json")
  }

  @Test(
    "stay in use, and are refreshed, while the document is unavailable",
    arguments: ["discovery-status-500", "discovery-rubbish", "discovery-slash"])
  func withoutDocument(_ behaviour: String) async throws {
    let (ground, source) = (try KeySetGround(), provider.issuer())
    _ = try await ground.begin(having: source)
    try provider.behave(behaviour)
    ground.pass(900)
    #expect(await ground.keySets.table.fresh(source)?.count == 4)
    #expect(try provider.discoveries() == 2 && provider.requests() == 2)
    #expect(ground.keySets.counts == KeySetCounts(fetches: 2, oldestAge: 0))
    #expect(
      ground.log.warnings.last?.contains("It took the keys from \(provider.url)/jwks.json, where they were") == true)
  }

  @Test(
    "do not arrive without a proper document, and the log says why",
    arguments: [
      ("discovery-status-404", "The response has status 404."), ("discovery-redirect", "The response has status 302."),
      ("discovery-rubbish", "The discovery document is a web page"), ("discovery-huge", "65536"),
      ("discovery-slash", "differs only by a slash at the end"), ("discovery-keyless", "has no jwks_uri"),
      ("discovery-twice", "repeats a member"), ("discovery-plain", "does not begin with https://."),
    ])
  func refused(_ behaviour: String, _ words: String) async throws {
    try provider.behave(behaviour)
    let (ground, source) = (try KeySetGround(), provider.issuer())
    try ground.use([source])
    #expect(await ground.keySets.table.fresh(source) == nil)
    #expect(try provider.requests() == 0)
    let warning = try #require(ground.log.warnings.first)
    #expect(warning.contains(words) && warning.contains("/.well-known/openid-configuration"), "\(warning)")
  }

  @Test("do not hold a caller longer than the time of one fetch")
  func hanging() async throws {
    try provider.behave("discovery-hold")
    let ground = try KeySetGround(
      timeouts: UpstreamTimeouts(connect: .seconds(5), firstByte: .seconds(5), whole: .milliseconds(200)))
    let source = provider.issuer()
    try ground.use([source])
    #expect(await ground.keySets.table.fresh(source) == nil)
    #expect(ground.keySets.counts == KeySetCounts(fetches: 1, failures: 1, missing: 1))
  }
}
