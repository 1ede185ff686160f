import TestSupport
import Testing

@Suite("doctor, on what the server depends on beside Apple Music")
struct DoctorDependencyTests {
  private static let offline = ["CATALOG_ENABLED": "false"]

  private func report(_ ground: Ground, _ settings: [String: String]) throws -> DoctorReport {
    try DoctorReport(ground, Self.offline.merging(settings) { $1 })
  }

  // MARK: This machine

  @Test("names a port that another program has, and blames no server with the same settings")
  func ports() throws {
    let ground = try Ground()
    let collector = try SpanCollector()
    let taken = try report(ground, ["SERVER_PORT": "\(collector.server.port)"])
    taken.expectFailure("listeners", "127.0.0.1:\(collector.server.port)", "another program listens", "SERVER_PORT")
    try report(ground, ["SERVER_HOST": "192.0.2.1"]).expectFailure("listeners", "no such address")

    let server = try ground.serve(Self.offline)
    let admin = try #require(server.adminURL?.split(separator: ":").last)
    let own = try report(ground, ["SERVER_PORT": "\(server.port)", "ADMIN_PORT": "\(admin)"])
    #expect(own.failed.isEmpty, "\(own.text)")
    #expect(own.lines(of: "listeners").contains("A server of this program listens on 127.0.0.1:\(server.port)."))

    let socket = ground.directory.path(of: "server.sock")
    #expect(try report(ground, ["SERVER_PORT": "", "SERVER_UNIX_SOCKET": socket]).failed.isEmpty)
    try ground.directory.write("", to: "server.sock")
    try report(ground, ["SERVER_PORT": "", "SERVER_UNIX_SOCKET": socket]).expectFailure(
      "listeners", "a regular file at this path")
    try report(ground, ["SERVER_PORT": "", "SERVER_UNIX_SOCKET": "/nonexistent/a.sock"]).expectFailure(
      "listeners", "/nonexistent/a.sock")
  }

  @Test("names files with secrets that other users can read")
  func modes() throws {
    let ground = try Ground()
    let store = try RedisServer()
    let key = try ground.directory.write(ground.key.pem, to: "AuthKey_OPEN123456.p8", mode: 0o644)
    let password = try ground.directory.write("secret", to: "password", mode: 0o604)
    let found = try report(
      ground,
      ["MUSICKIT_KEY_FILE": key, "SHARED_URL": "unix://\(store.socket)", "SHARED_PASSWORD_FILE": password])
    let lines = found.lines(of: "key-files")
    #expect(found.failed.contains("key-files") && lines.contains("mode 0644") && lines.contains("mode 0604"))
    #expect(lines.contains("musickit.keyFile") && lines.contains("shared.passwordFile"), "\(found.text)")
  }

  @Test(
    "names the server's own certificate before it expires",
    arguments: [(-7200, -3600, "expired at"), (-7200, 12 * 86_400, "expires in"), (-7200, 20 * 86_400, nil)])
  func certificates(_ start: Int, _ end: Int, _ words: String?) throws {
    let ground = try Ground()
    let certificate = try Certificate(key: KeyPair(), notBefore: start, notAfter: end)
    let found = try report(
      ground,
      [
        "SERVER_TLS_CERTIFICATE_FILE": try ground.directory.write(certificate.pem, to: "tls.crt"),
        "SERVER_TLS_KEY_FILE": try ground.directory.write(certificate.key.pem, to: "tls.key"),
      ])
    guard let words else { return #expect(found.passed.contains("certificates"), "\(found.text)") }
    found.expectFailure("certificates", words, "Renew it")
  }

  // MARK: The store

  @Test("names what is wrong with the store")
  func store() throws {
    let ground = try Ground()
    let store = try RedisServer(["--port", "0"])
    let password = try ground.directory.write("secret\n", to: "password")
    // A busy machine's store does not respond within the default of 20 ms, which the command would name.
    let address = ["SHARED_URL": "unix://\(store.socket)", "SHARED_TIMEOUT": "5s"]
    let user = ["SHARED_USER": "musickit", "SHARED_PASSWORD_FILE": password].merging(address) { $1 }
    func expect(_ settings: [String: String], _ words: String..., sourceLocation: SourceLocation = #_sourceLocation)
      throws
    {
      let found = try report(ground, settings)
      found.expectFailure("shared-store", sourceLocation: sourceLocation)
      for word in words {
        #expect(found.lines(of: "shared-store").contains(word), "\(found.text)", sourceLocation: sourceLocation)
      }
      #expect(!found.text.contains("secret"), sourceLocation: sourceLocation)
    }
    let good = try report(ground, address)
    #expect(good.failed.isEmpty && good.lines(of: "shared-store").contains("takes every command"), "\(good.text)")
    #expect(good.lines(of: "shared-store").contains("(master)"))
    #expect(try store.run("KEYS", "*").isEmpty)

    try expect(user, "It refuses the user or the password", "ACL LIST")
    try store.run("ACL", "SETUSER", "musickit", "on", ">secret", "~*", "&*", "+@all", "-zadd", "-append")
    try expect(user, "may not run: append, zadd", "ACL SETUSER musickit resetkeys ~{musickit}:*")
    try store.run("ACL", "SETUSER", "musickit", "+@all", "resetkeys", "~other:*")
    try expect(user, "lacks permissions", "one of the keys")
    try store.run("ACL", "SETUSER", "musickit", "allkeys", "resetchannels")
    try expect(user, "SUBSCRIBE", "&{musickit}:events")
    try store.run("CONFIG", "SET", "maxmemory", "1")
    try expect(address, "It is full", "allkeys-lfu")
    try store.run("CONFIG", "SET", "maxmemory", "0")
    try store.run("REPLICAOF", "127.0.0.1", "1")
    try expect(address, "It is a read-only replica")
    store.pause()
    try expect(address, "It did not finish the greeting in time")
    store.kill()
    try expect(address, "No connection", "that the store runs")
    let cluster = try RedisServer(["--cluster-enabled", "yes"])
    try expect(["SHARED_URL": "unix://\(cluster.socket)"], "a node of a cluster", "without Cluster")
  }

  @Test("tells a Sentinel from a store")
  func sentinel() throws {
    let ground = try Ground()
    let file = try ground.directory.write("port 0\n", to: "sentinel.conf")
    let socket = ground.directory.path(of: "sentinel.sock")
    let sentinel = try ChildProcess("redis-server", [file, "--sentinel", "--unixsocket", socket])
    while let line = try sentinel.line(), !line.contains("Sentinel ID") {}
    try report(ground, ["SHARED_URL": "unix://\(socket)"]).expectFailure("shared-store", "It is a Sentinel")
    sentinel.kill()
  }

  // MARK: The collector

  @Test("names a collector that does not take spans")
  func collector() throws {
    let ground = try Ground()
    let collector = try SpanCollector()
    let good = try report(ground, collector.settings)
    #expect(good.failed.isEmpty && good.passed.contains("span-collector"), "\(good.text)")
    #expect(try collector.spans().isEmpty)
    let other = try ground.serve(Self.offline)
    try report(ground, ["OTEL_EXPORTER_OTLP_ENDPOINT": other.url]).expectFailure("span-collector", "status 404")
    let endpoint = ["OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS": "a=geheim"]
    let down = try report(ground, endpoint)
    down.expectFailure("span-collector", "Connection refused")
    #expect(!down.text.contains("geheim"))
  }
}
