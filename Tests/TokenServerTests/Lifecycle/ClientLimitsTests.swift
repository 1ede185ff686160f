import HTTPClient
import Redis
import TLS
import Testing

@testable import ServerSettings
@testable import TokenServer

@Suite("The limits of connections")
struct ClientLimitsTests {
  @Test(
    "to the store follow shared.timeout if it is long",
    arguments: [("20ms", 50, 1000, 1000), ("200ms", 200, 1000, 1000), ("5s", 5000, 10_000, 10_000)])
  func store(_ timeout: String, _ stall: Int, _ silence: Int, _ connect: Int) throws {
    let settings = try SettingsFixture().load(["SHARED_URL": "redis://a.example", "SHARED_TIMEOUT": timeout]).settings
    let limits = RedisClient.Configuration(try #require(settings.shared), StoreFiles(password: nil, authorities: nil))
      .limits
    #expect(limits.stall == .milliseconds(stall))
    #expect(limits.silence == .milliseconds(silence) && limits.connect == .milliseconds(connect))
  }

  @Test(
    "to Apple follow catalog.timeouts.connect if it is long",
    arguments: [(1, 4, 2500), (5, 4, 2500), (60, 48, 30_000)])
  func apple(_ connect: Int, _ attempt: Int, _ pingAck: Int) throws {
    let environment = ["CATALOG_ENABLED": "true", "CATALOG_TIMEOUTS_CONNECT": "\(connect)s"]
    let settings = try SettingsFixture().load(environment).settings
    let authorities = try TLSClientContext(caSetting: "catalog.caFile")
    let configuration = try UpstreamClient.Configuration(try #require(settings.catalog), authorities)
    #expect(configuration.limits.attempt == .seconds(attempt))
    #expect(configuration.limits.pingAck == .milliseconds(pingAck))
  }
}
