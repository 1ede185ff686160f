import EventLoop
import HTTPServer
import JSON
import Telemetry
import Testing

@testable import Access
@testable import ServerSettings
@testable import TokenServer

@Suite("The precedence of settings")
struct SettingsPrecedenceTests {
  @Test("a relative path in the file is relative to that file, one in a variable or flag to the working directory")
  func relativePaths() throws {
    let fixture = try SettingsFixture(
      """
      { musickit: { teamID: "TEAM123456", keyFile: "../k/AuthKey_KEY1234567.p8" }, audit: { file: "/var/audit.log" },
        server: { tls: { certificateFile: "tls.crt", keyFile: "tls.key", ticketKeyFiles: ["a", "/b"] } },
        access: { clients: [{ id: "app", jwt: { issuer: "https://a.example", audience: "b", jwksFile: "jwks.json" } }] } }
      """)
    let draft = SettingsDraft(
      fixture.input(["SERVER_TLS_CERTIFICATE_FILE": "own.crt"], flags: ["catalog.caFile": "ca"]))
    let paths = Dictionary(draft.files.paths.map { ($0.setting, $0.path) }) { first, _ in first }
    #expect(paths["musickit.keyFile"] == "/tmp/../k/AuthKey_KEY1234567.p8")
    #expect(paths["server.tls.certificateFile"] == "own.crt" && paths["server.tls.keyFile"] == "/tmp/tls.key")
    #expect(paths["catalog.caFile"] == "ca")
    #expect(paths["server.tls.ticketKeyFiles[0]"] == "/tmp/a" && paths["server.tls.ticketKeyFiles[1]"] == "/b")
    #expect(paths.values.contains("/tmp/jwks.json"), "\(paths)")
    #expect(draft.audit?.file == "/var/audit.log")
    // 105 bytes by itself, and too long for a socket in its folder.
    let socket = String(repeating: "s", count: 105)
    let errors = try SettingsFixture.errors("{ \(SettingsFixture.minimal), server: { unixSocket: \"\(socket)\" } }")
    #expect(errors.count == 1 && errors[0].contains("is a path of 110 bytes"), "\(errors)")
  }

  @Test(
    "a file of settings has a folder, and a pipe has none",
    arguments: [
      ("/dev/shm/a/c.json5", "/dev/shm/a/"), ("c.json5", nil), ("/c", "/"), ("/dev/fd/63", nil), ("/dev/stdin", nil),
      ("/proc/self/fd/3", nil),
    ])
  func folders(_ path: String, _ folder: String?) {
    #expect(SettingSource.file(path).folder == folder)
    #expect(SettingSource.file("\(path)\u{1B}[31m\u{202E}é").description == "file \(path)?[31m?é")
  }

  @Test("a flag can set a whole section")
  func sectionFlags() throws {
    let settings = try SettingsFixture().load(flags: ["server": "{ port: 1 }"]).settings
    #expect(settings.server.address == .tcp(.address("127.0.0.1"), port: 1))
  }

  /// Three values of each setting, in JSON5.
  static let values: [String: [String]] = {
    var values = [
      "musickit.teamID": ["\"AAAAAAAAAA\"", "\"BBBBBBBBBB\"", "\"CCCCCCCCCC\""],
      "musickit.keyID": ["\"AAAAAAAAA1\"", "\"BBBBBBBBB1\"", "\"CCCCCCCCC1\""],
      "musickit.keyFile": ["\"a\"", "\"b\"", "\"c\""],
      "musickit.signer.agent": ["\"a\"", "\"b\"", "\"c\""],
      "musickit.signer.command": ["[\"/a\"]", "[\"/b\", \"c\"]", "[\"/d\"]"],
      "musickit.signer.publicKeyFile": ["\"a\"", "\"b\"", "\"c\""],
      "musickit.signer.timeout": ["\"100ms\"", "\"6s\"", "\"30s\""],
      "musickit.keys": [
        "[{ file: \"a\", state: \"active\" }]", "[{ id: \"AAAAAAAAA1\", state: \"retired\" }]",
        "[{ file: \"b\", state: \"next\" }]",
      ],
      "token.ttl": ["\"61s\"", "\"2m\"", "\"3h\""],
      "token.maxTTL": ["\"4h\"", "\"5h\"", "\"6d\""],
      "token.backdate": ["\"1s\"", "\"2s\"", "\"3s\""],
      "server.host": ["\"*\"", "\"::1\"", "\"localhost\""],
      "server.port": ["1", "2", "3"],
      "server.unixSocket": ["\"/a\"", "\"/b\"", "\"/c\""],
      "server.reusePort": ["true", "false", "true"],
      "server.http2": ["true", "false", "true"],
      "server.page": ["true", "false", "true"],
      "server.module": ["true", "false", "true"],
      "server.tls.certificateFile": ["\"a\"", "\"b\"", "\"c\""],
      "server.tls.keyFile": ["\"a\"", "\"b\"", "\"c\""],
      "server.tls.certificates": [
        "[]", "[{ certificateFile: \"a\", keyFile: \"b\" }]", "[{ certificateFile: \"c\", keyFile: \"d\" }]",
      ],
      "server.tls.clientCAFile": ["\"a\"", "\"b\"", "\"c\""],
      "server.tls.ticketKeyFiles": ["[\"a\"]", "[\"b\", \"c\"]", "[\"d\"]"],
      "server.hosts": ["[\"a\"]", "[\"b.example\"]", "[\"c.example\", \"d\"]"],
      "server.proxyProtocol": ["true", "false", "true"],
      "server.trustedProxies": ["[\"10.0.0.0/8\"]", "[]", "[\"::1\", \"1.2.3.4\"]"],
      "server.forwarded": ["\"forwarded\"", "\"x-forwarded-for\"", "\"forwarded\""],
      "server.drain.delay": ["\"1s\"", "\"2s\"", "\"3s\""],
      "server.drain.timeout": ["\"1s\"", "\"2s\"", "\"3s\""],
      "server.loops": ["1", "2", "3"],
      "server.landlock": ["false", "true", "false"],
      "server.poller": ["\"poll\"", "\"epoll\"", "\"poll\""],
      "admin.enabled": ["true", "false", "true"],
      "admin.host": ["\"*\"", "\"::1\"", "\"localhost\""],
      "admin.hosts": ["[\"a\"]", "[\"b.example\"]", "[\"c.example\", \"d\"]"],
      "admin.port": ["1", "2", "3"],
      "admin.page": ["true", "false", "true"],
      "audit.required": ["true", "false", "true"],
      "catalog.enabled": ["true", "false", "true"],
      "catalog.upstream": ["\"https://a.example\"", "\"http://localhost:1\"", "\"https://c.example\""],
      "server.tls.hsts": ["\"1h\"", "\"2h\"", "\"3h\""],
      "catalog.caFile": ["\"a\"", "\"b\"", "\"c\""],
      "catalog.me": ["true", "false", "true"],
      "catalog.concurrency": ["1", "2", "3"],
      "catalog.cache.maxBytes": ["\"1MB\"", "\"2MB\"", "\"0B\""],
      "catalog.cache.lifetime": ["\"1s\"", "\"2s\"", "\"3s\""],
      "catalog.cache.notFoundLifetime": ["\"1s\"", "\"2s\"", "\"3s\""],
      "catalog.cache.staleWhileRevalidate": ["\"1s\"", "\"2s\"", "\"3s\""],
      "catalog.cache.staleIfError": ["\"1s\"", "\"2s\"", "\"3s\""],
      "catalog.timeouts.connect": ["\"1s\"", "\"2s\"", "\"3s\""],
      "catalog.timeouts.firstByte": ["\"1s\"", "\"2s\"", "\"3s\""],
      "catalog.timeouts.staleAfter": ["\"1ms\"", "\"1500ms\"", "\"2s\""],
      "catalog.timeouts.whole": ["\"1s\"", "\"2s\"", "\"3s\""],
      "access.anonymous.catalog": ["true", "false", "true"],
      "access.anonymous.me": ["true", "false", "true"],
      "access.anonymous.token": ["true", "false", "true"],
      "access.anonymous.origins": ["[\"https://a.example\"]", "[\"https://b.example\"]", "[\"https://c.example\"]"],
      "access.clients": ["[]", "[{ id: \"a\" }]", "[{ id: \"b\", token: false }, { id: \"c\" }]"],
      "access.anonymous.storefronts": ["[\"us\"]", "[\"fr\"]", "[\"gb\", \"us\"]"],
      "access.anonymous.rateLimit": ["{ perSecond: 1 }", "{ burst: 2, perSecond: 0.5 }", "{}"],
      "access.anonymous.share": ["0.5", "0.25", "1.0"],
      "shared.url": ["\"redis://a:1\"", "\"rediss://[::1]:6379\"", "\"unix:///c\""],
      "shared.user": ["\"a\"", "\"b\"", "\"c\""],
      "shared.passwordFile": ["\"a\"", "\"b\"", "\"c\""],
      "shared.caFile": ["\"a.pem\"", "\"b.pem\"", "\"c.pem\""],
      "shared.database": ["1", "2", "3"],
      "shared.keyPrefix": ["\"a\"", "\"b\"", "\"c\""],
      "shared.timeout": ["\"10ms\"", "\"20ms\"", "\"30ms\""],
      "audit.file": ["\"a.log\"", "\"b.log\"", "\"c.log\""],
      "access.anonymous.ttl": ["\"61s\"", "\"2m\"", "\"3h\""],
      "log.level": ["\"debug\"", "\"error\"", "\"trace\""],
      "log.access": ["0.5", "0.25", "0.0"],
      "log.format": ["\"json\"", "\"text\"", "\"json\""],
      "otel.sdk.disabled": ["true", "false", "true"],
      "otel.service.name": ["\"a\"", "\"b\"", "\"c\""],
      "otel.resource.attributes": ["\"k=a\"", "\"k=b,l=c\"", "\"k=d\""],
      "otel.traces.exporter": ["\"none\"", "\"otlp\"", "\"none\""],
      "otel.traces.sampler": ["\"always_on\"", "\"always_off\"", "\"traceidratio\""],
      "otel.traces.samplerArg": ["0.5", "0.25", "1.0"],
      "otel.bsp.scheduleDelay": ["1", "2", "3"],
      "otel.bsp.maxQueueSize": ["1", "2", "3"],
      "otel.bsp.maxExportBatchSize": ["1", "2", "3"],
    ]
    for path in ["otel.exporter.otlp", "otel.exporter.otlp.traces"] {
      values["\(path).endpoint"] = ["\"http://a/x\"", "\"https://b:1/y\"", "\"http://c/z\""]
      values["\(path).protocol"] = Array(repeating: "\"http/json\"", count: 3)
      values["\(path).timeout"] = ["1", "2", "3"]
      values["\(path).certificate"] = ["\"a\"", "\"b\"", "\"c\""]
    }
    for limit in ServerLimits.known {
      let text = limit.defaultText ?? ""
      values[limit.path] =
        if !text.hasPrefix("\"") {
          ["8", "9", "10"]
        } else if text.hasSuffix("MB\"") {
          ["\"17MB\"", "\"18MB\"", "\"19MB\""]
        } else if text.hasSuffix("B\"") {
          ["\"1025B\"", "\"2KB\"", "\"3KB\""]
        } else {
          ["\"7s\"", "\"8s\"", "\"2m\""]
        }
    }
    return values
  }()

  static let settings = Settings.known.filter { !$0.isSecret }.map(\.path)

  @Test("a variable overrides the file, and a flag overrides both", arguments: settings)
  func precedence(_ path: String) throws {
    let setting = try #require(Settings.schema.settings[path])
    let values = try #require(Self.values[path], "a new setting needs its values here")
    let parts = path.split(separator: ".")
    let file = parts.reversed().reduce(values[0]) { "{ \($1): \($0) }" }
    let bare = values.map { setting.isJSON5 ? $0 : $0.filter { $0 != "\"" } }
    let fixture = try SettingsFixture(file)
    let environment = [setting.variable: bare[1]]
    let inputs = [
      fixture.input(), fixture.input(environment), fixture.input(environment, flags: [path: bare[2]]),
    ]
    for (input, expected) in zip(inputs, values) {
      let layers = SettingsLayers(input, schema: Settings.schema)
      #expect(layers.errors.isEmpty)
      let canonical = try #require(layers.values[path].flatMap { setting.canonical($0.content) })
      #expect(try JSON5Parser.parse(canonical) == JSON5Parser.parse(expected))
    }
  }

  @Test("an empty variable counts as unset")
  func empty() throws {
    let loaded = try SettingsFixture().load(["SERVER_PORT": "", "MUSICKIT_CONFIG": ""])
    #expect(loaded.settings.server.address == .tcp(.address("127.0.0.1"), port: 8080))
  }

  @Test(
    "the variable PORT counts if nothing else says where the server listens",
    arguments: [
      ("", ["PORT": "9090"], [:], Settings.Server.Address.tcp(.address("127.0.0.1"), port: 9090), true),
      ("", ["PORT": "0"], [:], .tcp(.address("127.0.0.1"), port: 0), true),
      ("", ["PORT": ""], [:], .tcp(.address("127.0.0.1"), port: 8080), false),
      ("", ["PORT": "9090", "SERVER_HOST": "*"], [:], .tcp(.any, port: 9090), true),
      ("", ["PORT": "9090", "SERVER_PORT": "1"], [:], .tcp(.address("127.0.0.1"), port: 1), false),
      ("server: { port: 2 }", ["PORT": "9090"], [:], .tcp(.address("127.0.0.1"), port: 2), false),
      ("", ["PORT": "9090"], ["server.port": "3"], .tcp(.address("127.0.0.1"), port: 3), false),
      ("server: { unixSocket: '/run/s' }", ["PORT": "9090"], [:], .unix("/run/s"), false),
      ("server: { unixSocket: '/run/s' }", ["SERVER_HOST": "*"], [:], .unix("/run/s"), false),
      ("", ["PORT": "junk", "SERVER_PORT": "1"], [:], .tcp(.address("127.0.0.1"), port: 1), false),
    ] as [(String, [String: String], [String: String], Settings.Server.Address, Bool)])
  func platformPort(
    _ file: String, _ environment: [String: String], _ flags: [String: String], _ address: Settings.Server.Address,
    _ isPortOfPlatform: Bool
  ) throws {
    let server = try SettingsFixture("{ \(SettingsFixture.minimal), \(file) }").load(environment, flags: flags).settings
      .server
    #expect(server.address == address)
    #expect(server.isPortOfPlatform == isPortOfPlatform)
  }

  @Test("a malformed PORT is an error that names the variable", arguments: ["http", "65536", "-1", "80 80"])
  func malformedPlatformPort(_ text: String) throws {
    let errors = try SettingsFixture.errors("{ \(SettingsFixture.minimal) }", ["PORT": text])
    #expect(errors.count == 1 && errors[0].hasPrefix("server.port (PORT): "), "\(errors)")
  }

  @Test("a section's variable replaces the section, and a member's variable overrides the section's variable")
  func objects() throws {
    let fixture = try SettingsFixture(
      "{ musickit: { teamID: 'TEAM123456', keyFile: 'k' }, access: { anonymous: { catalog: true, ttl: '1h' } } }")
    let replaced = try fixture.load(["ACCESS_ANONYMOUS": "{}"]).settings.access.anonymous
    #expect(replaced == Client(id: "anonymous", credential: .anonymous))
    let both = try fixture.load(["ACCESS_ANONYMOUS": "{ token: true, ttl: '5m' }", "ACCESS_ANONYMOUS_TTL": "6m"])
      .settings.access
      .anonymous
    #expect(both == Client(id: "anonymous", credential: .anonymous, ttl: 360))
  }

  @Test("environment variables alone suffice for a valid configuration")
  func environmentAlone() throws {
    let environment = [
      "MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_FILE": "k", "ACCESS_ANONYMOUS": "{ token: true }",
      "LOG_FORMAT": "text",
      "SERVER_LIMITS_IDLE": "5s", "SERVER_TRUSTED_PROXIES": "['10.0.0.0/8']", "SERVER_HOST": "*",
    ]
    let input = SettingsInput(environment: environment, host: SettingsFixture.host)
    let settings = try Settings.load(input).settings
    #expect(settings.server.address == .tcp(.any, port: 8080))
    #expect(settings.server.limits.idle == .seconds(5))
    #expect(settings.server.trustedProxies.map(\.description) == ["10.0.0.0/8"])
    #expect(settings.log.format == .text)
  }

  @Test("MUSICKIT_CONFIG names the file, and --config overrides MUSICKIT_CONFIG")
  func configFile() throws {
    let input = SettingsInput(environment: ["MUSICKIT_CONFIG": "/nonexistent/env"], host: SettingsFixture.host)
    let fromEnvironment = #expect(throws: InvalidSettings.self) { try Settings.load(input) }
    #expect(fromEnvironment?.errors.first?.source == .file("/nonexistent/env"))
    #expect(throws: Never.self) {
      try SettingsFixture().load(["MUSICKIT_CONFIG": "/nonexistent/env"])
    }
  }

  @Test(
    "a setting's variable is its path in upper case with underscores",
    arguments: [
      ("musickit.teamID", "MUSICKIT_TEAM_ID"), ("token.maxTTL", "TOKEN_MAX_TTL"), ("server.port", "SERVER_PORT"),
      ("server.tls.certificateFile", "SERVER_TLS_CERTIFICATE_FILE"),
      ("server.trustedProxies", "SERVER_TRUSTED_PROXIES"), ("server.proxyProtocol", "SERVER_PROXY_PROTOCOL"),
      ("server.tls.clientCAFile", "SERVER_TLS_CLIENT_CA_FILE"),
      ("server.limits.connectionsPerAddress", "SERVER_LIMITS_CONNECTIONS_PER_ADDRESS"),
    ])
  func variables(_ path: String, _ name: String) {
    #expect(variableName(of: path) == name)
  }

  @Test("an unknown variable with a known prefix causes a warning, unless Kubernetes set the variable")
  func unknownVariables() throws {
    let loaded = try SettingsFixture().load([
      "TOKEN_TLL": "1h", "PATH": "/bin", "MUSICKIT_TOKEN_SERVER_PORT": "tcp://10.0.0.1:8080",
      "SERVER_PORT_8080_TCP_ADDR": "10.0.0.1", "SERVER_PORT_8080_TCP": "tcp://10.0.0.1:8080",
      "SERVER_SERVICE_HOST": "10.0.0.1", "SERVER_SERVICE_PORT": "8080", "SERVER_SERVICE_PORT_HTTP": "8080",
    ])
    #expect(
      loaded.draft.warnings == [
        "The environment variable \"TOKEN_TLL\" is unknown and has no effect; the nearest setting is TOKEN_TTL."
      ])
  }
}
