import Testing

@testable import ServerSettings
@testable import TokenServer

@Suite("An error in the settings")
struct SettingsErrorTests {
  struct Case: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let file: String
    let environment: [String: String]
    let flags: [String: String]
    let error: String

    init(
      _ label: String, _ file: String = "", environment: [String: String] = [:], flags: [String: String] = [:],
      error: String
    ) {
      testDescription = label
      self.file = file
      self.environment = environment
      self.flags = flags
      self.error = error
    }
  }

  static let cases: [Case] = [
    Case("a port out of range", "server: { port: 70000 }", error: "server.port: 70000 is out of range; write a whole"),
    Case(
      "a port as a string", "server: { port: '80' }", error: "server.port: is a string; write a whole number from 0"),
    Case("a fractional port", "server: { port: 80.5 }", error: "server.port: \"80.5\" is not a whole number;"),
    Case(
      "a path for a shell to expand", "server: { tls: { certificateFile: '~/c.pem', keyFile: 'k.pem' } }",
      error: "server.tls.certificateFile: begins with ~, which a shell expands and this server does not; write the"),
    Case(
      "a socket for a shell to expand", "server: { unixSocket: '~/s' }",
      error: "server.unixSocket: begins with ~, which a shell expands"),
    Case("a null", "server: { port: null }", error: "server.port: is null;"),
    Case(
      "a port in the environment", environment: ["SERVER_PORT": "80a"],
      error: "server.port (SERVER_PORT): \"80a\" is not a whole number;"),
    Case(
      "a port in a flag", flags: ["server.port": "80a"], error: "server.port (--set): \"80a\" is not a whole number;"),
    Case(
      "a Kubernetes service link", environment: ["SERVER_PORT": "tcp://10.0.0.1:8080"],
      error: "server.port (SERVER_PORT): Kubernetes or Docker sets this variable for a service"),
    Case("a host name", "server: { host: 'example.com' }", error: "server.host: \"example.com\" is not an IP address;"),
    Case(
      "a host in brackets", "server: { host: '[::1]' }",
      error: "an IP address without brackets, \"localhost\", or \"*\""),
    Case(
      "a host that needs a zone", "server: { host: 'fe80::1' }",
      error: "server.host: \"fe80::1\" is an address on which no server can listen; write an IP address"),
    Case(
      "an address of IPv4 in IPv6", "server: { host: '::ffff:127.0.0.1' }",
      error: "server.host: \"::ffff:127.0.0.1\" is an address on which no server can listen;"),
    Case(
      "a group of machines", "server: { host: '224.0.0.1' }",
      error: "server.host: \"224.0.0.1\" is an address on which no server can listen;"),
    Case(
      "a group of machines in IPv6", "admin: { host: 'ff02::1' }",
      error: "admin.host: \"ff02::1\" is an address on which no server can listen;"),
    Case(
      "a broadcast", "server: { host: '255.255.255.255' }",
      error: "server.host: \"255.255.255.255\" is an address on which no server can listen;"),
    Case(
      "the URL of no proxy", environment: ["HTTPS_PROXY": "ftp://x"],
      error: "HTTPS_PROXY: is not the URL of a proxy, and the server needs one for https://api.music.apple.com; write"),
    Case(
      "the URL of no proxy for the collector", "catalog: { enabled: false }",
      environment: ["https_proxy": "ftp://x", "OTEL_EXPORTER_OTLP_ENDPOINT": "https://c.example"],
      error: "https_proxy: is not the URL of a proxy, and the server needs one for https://c.example; write"),
    Case(
      "a setting that is no proxy, beside a variable", "catalog: { proxy: 'ftp://x' }",
      environment: ["HTTPS_PROXY": "ftp://x"], error: "catalog.proxy: has an invalid value; write"),
    Case(
      "a socket and a host", "server: { host: '*', unixSocket: '/run/s' }",
      error: "server.host: is set, and so is server.unixSocket; keep one of the two."),
    Case(
      "a socket and a port", "server: { port: 1, unixSocket: '/run/s' }",
      error: "server.port: is set, and so is server.unixSocket; keep one of the two."),
    Case(
      "a socket with a successor", "server: { reusePort: true, unixSocket: '/run/s' }",
      error: "server.reusePort: is true, and server.unixSocket is set; leave it out, and let the service manager"),
    Case(
      "a socket's path that is too long", "server: { unixSocket: '/\(String(repeating: "x", count: 107))' }",
      error: "server.unixSocket: is a path of 108 bytes; write a path of 1 to 107 bytes."),
    Case(
      "a certificate without its key", "server: { tls: { certificateFile: 'c.pem' } }",
      error: "server.tls.keyFile: is not set; HTTPS needs it together with server.tls.certificateFile"),
    Case(
      "a key without its certificate", "server: { tls: { keyFile: 'k.pem' } }",
      error: "server.tls.certificateFile: is not set; HTTPS needs it together with server.tls.keyFile"),
    Case(
      "further certificates without the default one",
      "server: { tls: { certificates: [{ certificateFile: 'c.pem', keyFile: 'k.pem' }] } }",
      error: "server.tls.certificates: is set, and server.tls.certificateFile is not; write"),
    Case(
      "a further certificate without its key",
      "server: { tls: { certificateFile: 'c.pem', keyFile: 'k.pem', certificates: [{ certificateFile: 'c.pem' }] } }",
      error: "server.tls.certificates[0].keyFile: is not set; write a PEM file's path"),
    Case(
      "ticket keys without a certificate", "server: { tls: { ticketKeyFiles: ['t.key'] } }",
      error: "server.tls.ticketKeyFiles: is set, and server.tls.certificateFile is not; write"),
    Case(
      "an empty list of ticket keys",
      "server: { tls: { certificateFile: 'c.pem', keyFile: 'k.pem', ticketKeyFiles: [] } }",
      error: "server.tls.ticketKeyFiles: is empty; leave it out, and the server makes its own keys."),
    Case(
      "too many ticket keys",
      "server: { tls: { certificateFile: 'c.pem', keyFile: 'k.pem', ticketKeyFiles: [\((1...9).map { "'\($0)'" }.joined(separator: ","))] } }",
      error: "server.tls.ticketKeyFiles: has 9 elements; write 8 at most."),
    Case(
      "one ticket key without a list",
      "server: { tls: { certificateFile: 'c.pem', keyFile: 'k.pem', ticketKeyFiles: 't.key' } }",
      error: "server.tls.ticketKeyFiles: is a string; write a list such as [\"/path/ticket.key\"]."),
    Case(
      "HSTS without a certificate", "server: { tls: { hsts: '1h' } }",
      error: "server.tls.hsts: is set, and server.tls.certificateFile is not; leave it out"),
    Case(
      "HTTP/2 without a certificate", "server: { http2: true }",
      error: "server.http2: is true, and server.tls.certificateFile is not set; leave it out"),
    Case(
      "neither HTTP/2 nor none", environment: ["SERVER_HTTP2": "no"],
      error: "server.http2 (SERVER_HTTP2): \"no\" is neither true nor false;"),
    Case(
      "HSTS for too long", "server: { tls: { certificateFile: 'c.pem', keyFile: 'k.pem', hsts: '731d' } }",
      error: "server.tls.hsts: \"731d\" is out of range;"),
    Case(
      "client authorities without a certificate", "server: { tls: { clientCAFile: 'ca.pem' } }",
      error: "server.tls.clientCAFile: is set, and server.tls.certificateFile is not; write"),
    Case(
      "PROXY headers of nobody", "server: { proxyProtocol: true }",
      error: "server.proxyProtocol: is true, and server.trustedProxies is empty; write the addresses of the proxies"),
    Case(
      "PROXY headers of an empty list", "server: { proxyProtocol: true, trustedProxies: [] }",
      error: "server.proxyProtocol: is true, and server.trustedProxies is empty;"),
    Case(
      "PROXY headers of a version", "server: { proxyProtocol: 'v2', trustedProxies: ['::1'] }",
      error: "server.proxyProtocol: is a string; write true or false."),
    Case(
      "a range with bits beyond its prefix", "server: { trustedProxies: ['10.0.0.1/8'] }",
      error: "server.trustedProxies: \"10.0.0.1/8\" is not a range of addresses;"),
    Case(
      "several texts that are no ranges", "server: { trustedProxies: ['10.0.0.1/8', '::1', 'proxy'] }",
      error: "server.trustedProxies: \"10.0.0.1/8\" is not a range of addresses, and \"proxy\" is not a range of "
        + "addresses; write"),
    Case(
      "ranges as bare text", environment: ["SERVER_TRUSTED_PROXIES": "10.0.0.0/8"],
      error: "server.trustedProxies (SERVER_TRUSTED_PROXIES): line 1, column 1: this is not a value"),
    Case(
      "one range where a list should be", "server: { trustedProxies: '10.0.0.0/8' }",
      error: "server.trustedProxies: is a string; write a list such as [\"10.0.0.0/8\", "),
    Case(
      "an unknown poller", "server: { poller: 'kqueue' }",
      error: "server.poller: \"kqueue\" is not one of its values; write one of \"epoll\", \"poll\"."),
    Case("no loops", "server: { loops: 0 }", error: "server.loops: 0 is out of range; write a whole number from 1"),
    Case(
      "a limit out of range", "server: { limits: { requestLine: '1MB' } }",
      error: "server.limits.requestLine: 1MB is out of range; write a size such as"),
    Case(
      "an unknown limit", "server: { limits: { requestline: '8KB' } }",
      error: "server.limits: there is no setting \"requestline\"; the nearest is server.limits.requestLine."),
    Case(
      "more connections than descriptors", "server: { limits: { connections: 99999 } }",
      error: "server.limits.connections: 99999 is more than this process may open; write 98675 at most"),
    Case(
      "a duration without unit", "token: { ttl: 3600 }",
      error: "token.ttl: is a number without a unit; write a duration such as \"45s\""),
    Case(
      "a duration without unit in the environment", environment: ["TOKEN_TTL": "3600"],
      error: "token.ttl (TOKEN_TTL): \"3600\" is not a duration;"),
    Case("a fractional duration", "token: { ttl: '1.5h' }", error: "token.ttl: \"1.5h\" is not a duration;"),
    Case("a negative duration", "token: { ttl: '-1h' }", error: "token.ttl: \"-1h\" is not a duration;"),
    Case(
      "a duration beyond any number", "token: { ttl: '999999999999999999d' }",
      error: "token.ttl: \"999999999999999999d\" is not a duration;"),
    Case(
      "a life above Apple's cap", "token: { ttl: '15777001s' }", error: "token.ttl: \"15777001s\" is out of range; "),
    Case("a life that is too short", "token: { ttl: '59s' }", error: "token.ttl: \"59s\" is out of range; write a"),
    Case(
      "a maximum below the default", "token: { ttl: '2h', maxTTL: '1h' }",
      error: "token.maxTTL: is less than token.ttl; write \"2h\" or more, or a smaller token.ttl."),
    Case(
      "a misspelt key", "token: { tll: '1h' }", error: "token: there is no setting \"tll\"; the nearest is token.ttl."),
    Case("a misspelt section", "severs: {}", error: "there is no setting \"severs\"; the nearest is server."),
    Case(
      "a key in the wrong section", "token: { trustedProxies: [] }",
      error: "token: there is no setting \"trustedProxies\"; the nearest is server.trustedProxies."),
    Case("a dotted key", "'server.port': 80", error: "there is no setting \"server.port\"; write server: { port: … }."),
    Case(
      "a dotted key in a section", "token: {}, server: { 'tls.hsts': '1h' }",
      error: "server: there is no setting \"tls.hsts\"; write tls: { hsts: … }."),
    Case(
      "a name of two lines", "shared: { url: 'redis://a', user: 'a\\nb', passwordFile: 'p' }",
      error: "shared.user: has a line break, a tab or another control character; write the name of a user"),
    Case(
      "a secret in a flag of its section", flags: ["otel.exporter.otlp": "{ headers: 'k=geheim' }"],
      error: "otel.exporter.otlp.headers (--set): every user of the machine can see a command line; give it in a file"),
    Case(
      "a secret in a flag of the outermost section", flags: ["otel": "{ exporter: { otlp: { headers: 'k=geheim' } } }"],
      error: "otel.exporter.otlp.headers (--set): every user of the machine can see a command line; give it in a file"),
    Case(
      "an origin with a query", "catalog: { upstream: 'https://a.example/?token=geheim' }",
      error: "catalog.upstream: the URL has a query, which is no part of an origin; write an origin such as"),
    Case("a section that is no object", "server: 5", error: "server: is a number; write an object with any of drain,"),
    Case(
      "the team's ID malformed", "musickit: { teamID: 'team', keyFile: 'k' }",
      error: "musickit.teamID: \"team\" is not 10 characters of A-Z and 0-9;"),
    Case(
      "no team", "musickit: { keyFile: 'k' }",
      error: "musickit.teamID: is not set; write the 10-character Team ID of your Apple developer account, here or as "
        + "MUSICKIT_TEAM_ID."),
    Case(
      "no key", "musickit: { teamID: 'TEAM123456' }",
      error:
        "musickit.keyFile: is not set; write the path of the .p8 file from Apple, here or as MUSICKIT_KEY_FILE, or "
        + "its text as musickit.key or MUSICKIT_KEY; musickit.signer takes a key outside of the server."),
    Case(
      "two keys", "musickit: { teamID: 'TEAM123456', keyFile: 'k', key: 'k' }",
      error: "musickit.key: is set, and so is musickit.keyFile; keep one of the two."),
    Case(
      "a key and keys", "musickit: { teamID: 'TEAM123456', keyFile: 'k', keys: [{ file: 'a', state: 'active' }] }",
      error: "musickit.keys: is set, and so is musickit.keyFile; keep one of the two."),
    Case(
      "keys without an active one", "musickit: { teamID: 'TEAM123456', keys: [{ file: 'a', state: 'next' }] }",
      error: "musickit.keys: has no active key; give one of its keys the state \"active\"."),
    Case(
      "an empty list of keys", "musickit: { teamID: 'TEAM123456', keys: [] }",
      error: "musickit.keys: is empty; name the active key."),
    Case(
      "two active keys",
      "musickit: { teamID: 'TEAM123456', keys: [{ file: 'a', state: 'active' }, { file: 'b', state: 'active' }] }",
      error: "musickit.keys[1]: is a second active key; give it the state \"next\" or \"retired\"."),
    Case(
      "two next keys",
      "musickit: { teamID: 'TEAM123456', keys: [{ file: 'a', state: 'active' }, { file: 'b', state: 'next' }, { file: 'c', state: 'next' }] }",
      error: "musickit.keys[2]: is a second next key; rotate to one key at a time."),
    Case(
      "one key in two states",
      "musickit: { teamID: 'TEAM123456', keys: [{ file: 'AuthKey_ABC1234567.p8', state: 'active' }, { id: 'ABC1234567', state: 'retired' }] }",
      error: "musickit.keys[1]: has the key ID ABC1234567, which musickit.keys[0] also has; keep one of the two, or"),
    Case(
      "a state that does not exist", "musickit: { teamID: 'TEAM123456', keys: [{ file: 'a', state: 'old' }] }",
      error: "musickit.keys[0].state: \"old\" is not one of its values; write one of \"active\", \"next\", \"retired\"."
    ),
    Case(
      "a key without a state", "musickit: { teamID: 'TEAM123456', keys: [{ file: 'a' }] }",
      error: "musickit.keys[0].state: is not set; write \"active\", \"next\" or \"retired\"."),
    Case(
      "a next key without a file",
      "musickit: { teamID: 'TEAM123456', keys: [{ file: 'a', state: 'active' }, { state: 'next' }] }",
      error: "musickit.keys[1].file: is not set; write the path of the .p8 file from Apple."),
    Case(
      "a retired key without an ID",
      "musickit: { teamID: 'TEAM123456', keys: [{ file: 'a', state: 'active' }, { state: 'retired' }] }",
      error: "musickit.keys[1].id: is not set; write the ID of the retired key."),
    Case(
      "a time for the active key",
      "musickit: { teamID: 'TEAM123456', keys: [{ file: 'a', state: 'active', notBefore: '2026-12-01T09:00:00Z' }] }",
      error:
        "musickit.keys[0].notBefore: has no effect on a key that is active; leave it out, or write state: \"next\"."),
    Case(
      "a time that does not exist",
      "musickit: { teamID: 'TEAM123456', keys: [{ file: 'a', state: 'next', notBefore: '2026-02-30T09:00:00Z' }] }",
      error: "musickit.keys[0].notBefore: \"2026-02-30T09:00:00Z\" is not a time in UTC; write one such as"),
    Case(
      "a key without its ID", "musickit: { teamID: 'TEAM123456', key: 'k' }", error: "musickit.keyID: is not set; write"
    ),
    Case(
      "the key's ID is the team's", "musickit: { teamID: 'TEAM123456', keyFile: 'k', keyID: 'TEAM123456' }",
      error: "musickit.keyID: is the same as musickit.teamID;"),
    Case(
      "the key as a flag", flags: ["musickit.key": "k"],
      error:
        "musickit.key (--set): every user of the machine can see a command line; give it in a file or as MUSICKIT_KEY"
    ),
    Case(
      "a flag for nothing", flags: ["server.prot": "1"],
      error: "--set: there is no setting \"server.prot\"; the nearest is server.port."),
    Case(
      "one port twice", "admin: { port: 8080 }",
      error: "admin.port: is the same as server.port; write another port, or 0 for a free one."),
    Case(
      "one port of every address and of one", "server: { host: '0.0.0.0' }, admin: { host: '127.0.0.1', port: 8080 }",
      error: "admin.port: is the same as server.port;"),
    Case(
      "one port of localhost and of an address", "server: { host: '::1' }, admin: { host: 'localhost', port: 8080 }",
      error: "admin.port: is the same as server.port;"),
    Case(
      "one port of the platform and of the admin listener", environment: ["PORT": "8081", "SERVER_HOST": "::"],
      flags: ["admin.host": "::1"], error: "admin.port: is the same as PORT;"),
    Case("a word for a boolean", "admin: { enabled: 'no' }", error: "admin.enabled: is a string; write true or false."),
    Case(
      "a word for a boolean in the environment", environment: ["ADMIN_ENABLED": "no"],
      error: "admin.enabled (ADMIN_ENABLED): \"no\" is neither true nor false; write true or false."),
    Case("an unknown level", "log: { level: 'verbose' }", error: "log.level: \"verbose\" is not one of its values;"),
    Case("no client has access", "access: {}", error: "access: no client has access; write access: { clients:"),
    Case(
      "access as true", "access: { anonymous: true }",
      error:
        "access.anonymous: is a boolean; write an object with any of catalog, me, origins, rateLimit, share, storefronts, token, ttl."
    ),
    Case(
      "an anonymous life above the maximum", "access: { anonymous: { token: true, ttl: '48h' } }",
      error: "access.anonymous.ttl: is more than token.maxTTL;"),
    Case(
      "an origin with a path", "access: { anonymous: { token: true, origins: ['https://app.example.com/x'] } }",
      error: "access.anonymous.origins: "),
    Case(
      "an object in the environment that is none", environment: ["ACCESS_ANONYMOUS": "{ token: tru }"],
      error: "access.anonymous (ACCESS_ANONYMOUS): line 1, column 10: this is not a value"),
    Case(
      "a host with a port", "server: { hosts: ['tokens.example.com:8080'] }",
      error: "server.hosts: \"tokens.example.com:8080\" is not the name of a host; write a name such as"),
    Case(
      "a host with a star", "admin: { hosts: ['*.example.com'] }",
      error: "admin.hosts: \"*.example.com\" is not the name of a host; write a name such as"),
    Case(
      "an empty list of hosts", environment: ["SERVER_HOSTS": "[]"],
      error: "server.hosts (SERVER_HOSTS): is empty; name some, or leave it out."),
    Case("a host that is no list", "server: { hosts: 'a' }", error: "server.hosts: is a string; write a list such as"),
    Case(
      "an origin in place of clients", environment: ["ACCESS_CLIENTS": "https://app.example.com"],
      error: "access.clients (ACCESS_CLIENTS): line 1, column 1: this is not a value; text must be in quotes; write "
        + "JSON5, such as [{ id: \"web\", origins: [\"https://app.example.com\"] }]."),
    Case(
      "an origin in place of clients, and nothing else", "access: {}",
      environment: ["ACCESS_CLIENTS": "https://app.example.com"], error: "access.clients (ACCESS_CLIENTS): line 1"),
    Case(
      "every origin", "access: { anonymous: { token: true, origins: ['*'] } }",
      error: "access.anonymous.origins: A star alone would give pages of every site your team's tokens and quota. Name"),
    Case("not JSON5, a member twice", "server: {}, server: {}", error: "the object already has a member \"server\";"),
    Case("not JSON5, curly quotation marks", "server: { host: “*” }", error: "a curly quotation mark"),
    Case("not JSON5", "server: { port: 1 ", error: "FILE: line 1, column"),
  ]

  @Test("gives the path, the problem and the remedy", arguments: cases)
  func errors(_ `case`: Case) throws {
    let replaced = ["musickit", "access"].filter { `case`.file.hasPrefix($0) }
    var sections = [
      "musickit": #"musickit: { teamID: "TEAM123456", keyFile: "AuthKey_KEY1234567.p8" }"#,
      "access": "access: { anonymous: { token: true } }",
    ]
    for name in replaced { sections[name] = nil }
    let file = "{ \(([`case`.file] + sections.values.sorted()).filter { !$0.isEmpty }.joined(separator: ", ")) }"
    let errors = try SettingsFixture.errors(file, `case`.environment, flags: `case`.flags)
    #expect(errors.contains { $0.contains(`case`.error) }, "\(errors)")
    #expect(errors.allSatisfy { !$0.contains("\n") && $0.hasSuffix(".") })
    if !`case`.testDescription.hasPrefix("not JSON5") { #expect(errors.count == 1, "\(errors)") }
  }

  @Test("does not hide other errors")
  func all() throws {
    let errors = try SettingsFixture.errors(
      "{ musickit: { teamID: 5 }, server: { port: -1, limits: { idle: 1 } }, lgo: {}, log: { level: 'x' } }",
      ["TOKEN_TTL": "x", "SERVER_HOST": "y"], flags: ["a.b": "c"])
    let paths = [
      "musickit.teamID", "musickit.keyFile", "server.port", "server.limits.idle", "log.level", "token.ttl",
      "server.host", "access", "--set",
    ]
    for path in paths { #expect(errors.contains { $0.hasPrefix(path) }, "\(path): \(errors)") }
    #expect(errors.contains { $0.contains("\"lgo\"") })
  }

  @Test(
    "says whether the configuration file is missing or a directory",
    arguments: [
      ("/nonexistent/x.json5", "does not exist"), ("/tmp", "is a directory"),
    ])
  func files(_ path: String, _ problem: String) {
    let input = SettingsInput(file: path, host: SettingsFixture.host)
    let error = #expect(throws: InvalidSettings.self) { try Settings.load(input) }
    #expect(error?.errors.first?.description.hasPrefix("file \(path): \(problem); name a readable file") == true)
  }
}
