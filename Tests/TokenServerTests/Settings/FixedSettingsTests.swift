import Testing

@testable import ServerSettings

@Suite("A setting that needs a restart")
struct FixedSettingsTests {
  /// The others. A setting that no code reads again must not be among them.
  @Test("is any except those that a reload uses")
  func live() {
    let live = Settings.known.filter { $0.fixed == nil }.map(\.path)
    let expected =
      ["musickit.teamID", "musickit.keyID", "musickit.keyFile", "musickit.key", "musickit.keys"]
      + ["agent", "command", "publicKeyFile", "timeout"].map { "musickit.signer.\($0)" }
      + ["token.ttl", "token.maxTTL", "token.backdate"]
      + ["certificates", "clientCAFile", "ticketKeyFiles", "hsts"].map { "server.tls.\($0)" }
      + ["server.http2", "server.hosts", "admin.hosts", "catalog.caFile"] + Settings.Access.known.map(\.path)
      + ["shared.user", "shared.passwordFile", "shared.caFile", "log.level", "log.access"]
      // There is one protocol only.
      + ["protocol", "certificate", "traces.protocol", "traces.certificate"].map { "otel.exporter.otlp.\($0)" }
    #expect(live == expected)
  }

  struct Change: CustomTestStringConvertible {
    let testDescription: String
    var before: [String: String] = [:]
    let after: [String: String]
    var names: [String] = []
  }

  private static let store = ["SHARED_URL": "redis://localhost"]
  private static let collector = ["OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"]

  static let cases = [
    Change(testDescription: "a port", after: ["SERVER_PORT": "1"], names: ["server.port"]),
    Change(testDescription: "a socket", after: ["SERVER_UNIX_SOCKET": "/a"], names: ["server.unixSocket"]),
    Change(testDescription: "a default, written", after: ["SERVER_PORT": "8080", "LOG_LEVEL": "info"]),
    Change(testDescription: "the same number of loops", after: ["SERVER_LOOPS": "3"]),
    Change(
      testDescription: "a limit", after: ["SERVER_LIMITS_IDLE": "5s", "SERVER_LIMITS_BODY_BYTES": "2KB"],
      names: ["server.limits.idle", "server.limits.bodyBytes"]),
    Change(
      testDescription: "TLS", after: ["SERVER_TLS_CERTIFICATE_FILE": "/a", "SERVER_TLS_KEY_FILE": "/b"],
      names: ["server.tls.certificateFile", "server.tls.keyFile"]),
    Change(
      testDescription: "another certificate",
      before: ["SERVER_TLS_CERTIFICATE_FILE": "/a", "SERVER_TLS_KEY_FILE": "/b"],
      after: ["SERVER_TLS_CERTIFICATE_FILE": "/c", "SERVER_TLS_KEY_FILE": "/d", "SERVER_HTTP2": "false"]),
    Change(
      testDescription: "no admin listener", before: ["ADMIN_HOSTS": "['a']"], after: ["ADMIN_ENABLED": "false"],
      names: ["admin.enabled"]),
    Change(
      testDescription: "no catalog", after: ["CATALOG_ENABLED": "false", "CATALOG_ME": "true"],
      names: ["catalog.enabled"]),
    Change(
      testDescription: "the catalog", after: ["CATALOG_ME": "true", "CATALOG_CACHE_MAX_BYTES": "0"],
      names: ["catalog.me", "catalog.cache.maxBytes"]),
    Change(testDescription: "the upstream's CA", after: ["CATALOG_CA_FILE": "/a"]),
    Change(testDescription: "a store", after: store, names: ["shared.url"]),
    Change(testDescription: "another store", before: store, after: ["SHARED_URL": "redis://a"], names: ["shared.url"]),
    Change(
      testDescription: "the store's password", before: store,
      after: store.merging(["SHARED_USER": "a", "SHARED_PASSWORD_FILE": "/a"]) { $1 }),
    Change(
      testDescription: "the ratio of traces", before: collector,
      after: collector.merging(["OTEL_TRACES_SAMPLER": "traceidratio"]) { $1 }, names: ["otel.traces.sampler"]),
    Change(
      testDescription: "the headers for the collector",
      before: collector.merging(["OTEL_EXPORTER_OTLP_HEADERS": "k=a"]) { $1 },
      after: collector.merging(["OTEL_EXPORTER_OTLP_HEADERS": "k=b"]) { $1 }, names: ["otel.exporter.otlp.headers"]),
    Change(
      testDescription: "the collector's CA", before: collector,
      after: collector.merging(["OTEL_EXPORTER_OTLP_CERTIFICATE": "/a"]) { $1 }),
  ]

  @Test("has a name if it differs from the running one, which stays", arguments: cases)
  func changes(_ change: Change) throws {
    let running = try SettingsFixture().load(change.before)
    let loaded = try SettingsFixture().load(change.after.merging(["TOKEN_TTL": "1h"]) { $1 })
    #expect(
      loaded.settings.needingRestart(loaded.draft.written, since: running.settings, running.draft.written)
        == change.names)
    let kept = loaded.settings.keepingFixed(of: running.settings)
    #expect(kept.token.ttl == .seconds(3600))
    for row in Settings.known {
      var again = kept
      #expect(row.fixed?.keep(&again, running.settings) != true, "\(row.path)")
    }
    #expect((kept.server.tls == nil) == (running.settings.server.tls == nil))
    if kept.server.tls != nil, loaded.settings.server.tls != nil {
      #expect(kept.server.tls == loaded.settings.server.tls)
    }
    #expect(kept.admin == running.settings.admin)
    // Back to the values of the start: nothing is pending any more.
    #expect(running.settings.needingRestart(running.draft.written, since: kept, running.draft.written) == [])
  }
}
