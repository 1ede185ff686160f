import Bytes
import HTTPTypes
import JSON
import Testing

@testable import MusicSandbox

@Suite struct LogTests {
  @Test("the log lists requests in order, with a verdict in place of each credential")
  func requests() throws {
    let ground = try Ground()
    let fields = [field("X-Forwarded-For", "192.0.2.1"), field("Cookie", "secret=1")]
    _ = ground.respond("/v1/catalog/us/albums/1200868601?include=artists", fields: fields, user: Ground.userToken)
    _ = ground.respond("/v1/test", fields: [field("Authorization", "Bearer forged.secret.token")])
    let log = try ground.json("/sandbox/log")
    #expect(log["count"] == .number("2"))
    #expect(log.at("statuses.200") == .number("1") && log.at("statuses.401") == .number("1"))
    let first = try #require(log.at("requests.0"))
    #expect(first["method"] == .string("GET"))
    #expect(first["path"] == .string("/v1/catalog/us/albums/1200868601"))
    #expect(first["query"] == .string("include=artists"))
    #expect(first["developerToken"]?.text?.hasPrefix("accepted: team TEAM123456, key ABC123DEFG") == true)
    #expect(log.at("requests.1.developerToken")?.text?.hasPrefix("refused: form") == true)
    let values = first["fields"]?.elements.compactMap { $0["value"]?.text } ?? []
    #expect(values[0] == "192.0.2.1" && values[1] == "present, 8 bytes" && values[3] == "good")
  }

  @Test("the log contains no credential")
  func secrecy() throws {
    let ground = try Ground()
    let fields = [field("Cookie", "secret-cookie"), field("Proxy-Authorization", "secret-proxy")]
    _ = ground.respond("/v1/me/storefront", fields: fields, user: "secret-user")
    _ = ground.respond("/v1/test", fields: [field("Authorization", "Bearer secret.token.here")])
    let log = String(decoding: ground.respond("/sandbox/log").content, as: UTF8.self)
    #expect(!log.contains("secret-") && !log.contains("secret.token") && !log.contains(ground.token))
  }

  @Test("the log is bounded, and DELETE clears the log")
  func bounded() throws {
    let ground = try Ground()
    let long = String(repeating: "a", count: 10_000)
    let many = try (0..<100).map { HTTPField(name: try #require(HTTPField.Name("X-\($0)")), value: long) }
    _ = ground.respond("/v1/test?term=\(long)", fields: many)
    #expect(ground.respond("/sandbox/log").content.count < 50_000)
    for _ in 0..<RequestLog.most.requests { _ = ground.respond("/v1/test") }
    let log = try ground.json("/sandbox/log")
    #expect(log["requests"]?.elements.count == RequestLog.most.requests)
    #expect(log.at("requests.0.number") == .number("2"))
    #expect(ground.respond("/sandbox/log", "DELETE").status == 204)
    #expect(try ground.json("/sandbox/log")["count"] == .number("0"))
    #expect(ground.respond("/sandbox/log", "PUT").status == 405)
  }
}
