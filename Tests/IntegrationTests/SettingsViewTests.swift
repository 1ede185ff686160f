import Bytes
import Glibc
import JSON
import TestSupport
import Testing

@Suite("/config on the admin listener")
struct SettingsViewTests {
  private func settings(_ server: RunningServer) throws -> JSONValue {
    let response = try server.admin("/config")
    #expect(response.status == 200)
    return try #require(response.json)
  }

  @Test("shows each setting in force with its source, and no secret")
  func sources() throws {
    let ground = try Ground()
    let digest = try AccessGround.sha256("key-of-android")
    let file = try ground.directory.write(
      """
      { token: { ttl: '1h' }, catalog: { proxy: 'http://user:geheim@127.0.0.1:1' },
        access: { clients: [{ id: 'android', apiKey: { sha256: ['\(digest)'] }, rateLimit: { perSecond: 0.5, burst: 2 } }] } }
      """, to: "config.json5")
    let server = try ground.serve(
      [
        "MUSICKIT_CONFIG": file, "MUSICKIT_KEY_FILE": "", "MUSICKIT_KEY": ground.key.pem,
        "MUSICKIT_KEY_ID": Ground.keyID,
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS": "a=verschlossen",
      ], ["--host", "127.0.0.1"])
    let found = try settings(server)
    func expect(_ path: String, _ value: String, _ source: String) {
      let entry = found["settings"]?[path]
      #expect(entry?["value"].map { String(decoding: $0.bytes, as: UTF8.self) } == value, "\(path)")
      #expect(entry?["source"]?.string == source, "\(path)")
    }
    expect("token.ttl", "\"1h\"", "file \(file)")
    expect("server.port", "0", "SERVER_PORT")
    expect("server.host", "\"127.0.0.1\"", "--host")
    expect("log.level", "\"info\"", "default")
    expect("musickit.key", "\"(secret)\"", "MUSICKIT_KEY")
    expect("catalog.proxy", "\"(secret)\"", "file \(file)")
    expect("otel.exporter.otlp.headers", "\"(secret)\"", "OTEL_EXPORTER_OTLP_HEADERS")
    let text = try server.admin("/config").text
    for secret in ["geheim", "verschlossen", digest, "PRIVATE KEY"] { #expect(!text.contains(secret)) }
    #expect(text.contains("[\"\(digest.prefix(8))") && text.contains("\"perSecond\":0.5"), "\(text)")
    #expect(found["settings"]?["shared.url"] == nil)
    #expect(try !SecrecyTests.leaks(ground.key.pem, in: text))
  }

  @Test("is for no page of another site, which could let the server read its files again and again")
  func otherSites() throws {
    let server = try Ground().serve()
    for field in ["Origin: https://evil.example", "Sec-Fetch-Site: cross-site"] {
      #expect(try server.admin("/config", "-H", field).status == 403)
    }
  }

  @Test("shows what a reload would change, what needs a restart, and what is wrong")
  func changes() throws {
    let ground = try Ground()
    let file = try ground.directory.write("{ token: { ttl: '1h' } }", to: "config.json5")
    let server = try ground.serve(["MUSICKIT_CONFIG": file])
    func reload() throws -> JSONValue? { try settings(server)["reload"] }
    #expect(try reload()?["changes"]?.members.isEmpty == true)
    _ = try ground.directory.write("{ token: { ttl: '2h' }, server: { drain: { timeout: '5s' } } }", to: "config.json5")
    let next = try reload()
    #expect(next?["changes"]?.members.map(\.name.text).sorted() == ["server.drain.timeout", "token.ttl"])
    #expect(next?["changes"]?["token.ttl"]?["needsRestart"] == .bool(false))
    #expect(next?["changes"]?["token.ttl"]?["value"]?.string == "2h")
    #expect(next?["changes"]?["server.drain.timeout"]?["needsRestart"] == .bool(true))
    server.process.signal(SIGHUP)
    try server.process.waitForErrors("Configuration reloaded")
    #expect(try settings(server)["settings"]?["token.ttl"]?["value"]?.string == "2h")
    #expect(try settings(server)["settings"]?["server.drain.timeout"]?["source"]?.string == "default")
    #expect(try reload()?["changes"]?.members.map(\.name.text) == ["server.drain.timeout"])
    _ = try ground.directory.write("{ token: { ttl: 'soon' } }", to: "config.json5")
    guard case .array(let errors)? = try reload()?["errors"] else { throw TestFailure("There are no errors.") }
    #expect(errors.count == 1 && errors[0].string?.contains("token.ttl") == true)
    #expect(try server.request("/token").status == 200)
  }
}
