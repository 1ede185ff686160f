import EventLoop
import HTTPServer
import Logging
import Telemetry
import Testing

@testable import Access
@testable import ServerSettings
@testable import TokenServer

@Suite("The defaults")
struct SettingsDefaultTests {
  @Test("of all settings are the documented ones")
  func defaults() throws {
    let settings = try SettingsFixture().load().settings
    guard case .file("/tmp/AuthKey_KEY1234567.p8", keyID: nil) = settings.musickit.keys.active else {
      Issue.record("the key is not the file")
      return
    }
    #expect(settings.token == .init(ttl: .seconds(43_200), maxTTL: .seconds(86_400), backdate: .seconds(60)))
    #expect(settings.server.address == .tcp(.address("127.0.0.1"), port: 8080))
    #expect(settings.server.tls == nil)
    #expect(settings.server.trustedProxies.isEmpty)
    #expect(!settings.server.proxyProtocol)
    #expect(settings.server.limits == ServerLimits())
    #expect(settings.server.drainDelay == .zero)
    #expect(settings.server.drainTimeout == .seconds(30))
    #expect(settings.server.loops == 3)
    #expect(settings.server.poller == .epoll)
    #expect(settings.admin == .init(host: .address("127.0.0.1"), port: 8081))
    #expect(settings.access.anonymous == Client(id: "anonymous", credential: .anonymous))
    #expect(settings.access.clients.isEmpty)
    #expect(settings.audit.file == nil)
    #expect(settings.log == .init(level: .info, format: .json))
  }

  @Test("include a maximum lifetime that is at least the default lifetime")
  func maximum() throws {
    let loaded = try SettingsFixture().load(["TOKEN_TTL": "30d"])
    #expect(loaded.settings.token.maxTTL == .seconds(30 * 86_400))
  }

  @Test(
    "keep client and upstream connections below the descriptor limit",
    arguments: [
      (1024, 1, 685, 228), (1024, 8, 648, 27), (512, 40, 88, 1), (256, 2, 104, 17), (1_048_576, 64, 10_000, 400),
      (64, 1, 7, 2),
    ])
  func descriptors(openFiles: Int, cores: Int, connections: Int, upstream: Int) throws {
    let host = HostFacts(openFiles: openFiles, cores: cores, logsToTerminal: true)
    let settings = try SettingsFixture().load(host: host).settings
    #expect(settings.server.limits.connections == connections)
    #expect(settings.server.descriptors.upstreamPerLoop == upstream)
    #expect(settings.server.loops == cores)
    #expect(settings.log.format == .text)
  }

  @Test("include as many loops as the descriptors allow, and more loops are an error")
  func loops() throws {
    let host = HostFacts(openFiles: 256, cores: 128, logsToTerminal: true)
    let settings = try SettingsFixture().load(host: host).settings
    #expect(settings.server.loops == 25)
    #expect(settings.server.limits.connections == 8)
    let error = #expect(throws: InvalidSettings.self) {
      try SettingsFixture().load(["SERVER_LOOPS": "26"], host: host)
    }
    #expect(error?.errors.map(\.path) == ["server.loops"])
  }

  @Test("are an error if the process has too few descriptors for one loop")
  func tooFewDescriptors() throws {
    let host = HostFacts(openFiles: 55, cores: 4, logsToTerminal: true)
    let error = #expect(throws: InvalidSettings.self) { try SettingsFixture().load(host: host) }
    #expect(
      error?.description
        == "server.loops: 1 loop needs 64 descriptors at least, and the server has 55; raise the limit of descriptors "
        + "(ulimit -n, LimitNOFILE).")
  }

  @Test("include a memory budget of half the cgroup limit")
  func memory() throws {
    let host = HostFacts(openFiles: 1024, cores: 1, memory: 256 << 20, logsToTerminal: false)
    let loaded = try SettingsFixture().load(host: host)
    #expect(loaded.settings.server.limits.memory == 128 << 20)
    #expect(loaded.draft.warnings.isEmpty)
  }

  @Test(
    "cause a warning if the memory budget and the cache together exceed the cgroup limit",
    arguments: [("SERVER_LIMITS_MEMORY", "180MB"), ("CATALOG_CACHE_MAX_BYTES", "128MB")])
  func memoryWarning(_ variable: String, _ value: String) throws {
    let host = HostFacts(openFiles: 1024, cores: 1, memory: 256 << 20, logsToTerminal: false)
    let loaded = try SettingsFixture().load([variable: value], host: host)
    #expect(loaded.draft.warnings.count == 1)
    #expect(loaded.draft.warnings.first?.contains("exceed the 256MB that its cgroup allows") == true)
    #expect(try SettingsFixture().load([variable: value]).draft.warnings.isEmpty)
  }

  @Test("the settings can disable the admin listener")
  func admin() throws {
    #expect(try SettingsFixture().load(["ADMIN_ENABLED": "false"]).settings.admin == nil)
  }

  @Test("with --unsafe-allow-anonymous grant everything to anonymous callers and cause a warning")
  func unsafeAnonymous() throws {
    let fixture = try SettingsFixture("{ musickit: { teamID: 'TEAM123456', keyFile: 'k' } }")
    let loaded = try fixture.load(unsafeAllow: true)
    let everything = Client(id: "anonymous", credential: .anonymous, origins: .any, catalog: true, me: true)
    #expect(loaded.settings.access.anonymous == everything)
    #expect(loaded.draft.warnings.count == 1)
  }

  @Test("suffice for a health check without a key")
  func healthCheck() throws {
    let input = SettingsInput(environment: ["ADMIN_PORT": "9", "SERVER_PORT": "x"], host: SettingsFixture.host)
    #expect(try Settings.loadAdmin(input) == .init(host: .address("127.0.0.1"), port: 9))
    let invalid = SettingsInput(environment: ["ADMIN_PORT": "x"], host: SettingsFixture.host)
    #expect(throws: InvalidSettings.self) { try Settings.loadAdmin(invalid) }
  }
}
