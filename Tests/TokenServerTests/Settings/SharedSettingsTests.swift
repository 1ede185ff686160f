import Access
import Cryptography
import TestSupport
import Testing

@testable import ServerSettings

@Suite("The settings of the shared store")
struct SharedSettingsTests {
  private static func file(_ more: String) -> String { "{ \(SettingsFixture.minimal), \(more) }" }

  @Test(
    "have an address",
    arguments: [
      ("redis://store", "redis://store:6379"), ("redis://store:7000/", "redis://store:7000"),
      ("REDISS://store.example.com", "rediss://store.example.com:6379"), ("valkeys://[::1]:1", "rediss://[::1]:1"),
      ("valkey://10.0.0.1", "redis://10.0.0.1:6379"), ("unix:///run/redis.sock", "unix:///run/redis.sock"),
      ("unix:/run/redis.sock", "unix:///run/redis.sock"),
    ])
  func addresses(_ text: String, _ canonical: String) {
    #expect(StoreAddress(text)?.description == canonical)
  }

  @Test(
    "refuse other addresses",
    arguments: [
      "", "store:6379", "http://store", "redis://", "redis://store:0", "redis://store:70000", "redis://store:x",
      "redis://store/1", "redis://store?db=1", "redis://::1", "redis://[::1", "unix://run/redis.sock", "redis://a b",
      "unix:///" + String(repeating: "a", count: 107),
    ])
  func malformed(_ text: String) {
    #expect(StoreAddress(text) == nil)
  }

  @Test(
    "name the problem and the remedy",
    arguments: [
      (
        "{ url: 'redis://:geheim@store' }",
        "shared.url: has a user or a password in the URL; write shared.user and shared.passwordFile instead."
      ),
      ("{ url: 'store' }", "shared.url: \"store\" is not the URL of a store; write \"redis://host:6379\","),
      ("{ user: 'a' }", "shared.user: is set without shared.url; write shared.url, or remove it."),
      ("{ url: 'redis://a', user: 'a' }", "shared.user: is set without shared.passwordFile; write the path of the"),
      ("{ url: 'redis://a?password=geheim' }", "shared.url: the URL is not the URL of a store; write \"redis://host"),
      (
        "{ url: 'redis://[::1]:6379/1' }",
        "shared.url: has the number of a database in the URL; write shared.database: 1 instead."
      ),
      ("{ url: 'redis://a', user: 'a', passwordFile: 5 }", "shared.passwordFile: is a number; write a file's path."),
      (
        "{ url: 'redis://a', caFile: 'ca.pem' }", "shared.caFile: is set, but shared.url is not encrypted; write rediss"
      ),
      ("{ url: 'redis://a', keyPrefix: '{a}' }", "shared.keyPrefix: \"{a}\" is not a prefix of keys; write 1 to 64"),
      (
        "{ url: 'redis://a', database: -1 }",
        "shared.database: -1 is out of range; write a whole number from 0 to 65535."
      ),
    ])
  func errors(_ shared: String, _ error: String) throws {
    let errors = try SettingsFixture.errors(Self.file("shared: \(shared)"))
    #expect(errors.count == 1 && errors[0].hasPrefix(error), "\(errors)")
    #expect(errors.allSatisfy { !$0.contains("geheim") })
  }

  @Test("allow strict rates")
  func strictRates() throws {
    let strict = ["ACCESS_ANONYMOUS": "{ token: true, rateLimit: { perSecond: 5, strict: true } }"]
    let loaded = try SettingsFixture().load(strict.merging(["SHARED_URL": "redis://127.0.0.1"]) { $1 })
    #expect(loaded.settings.access.anonymous?.rates.isStrict == true)
    let errors = try SettingsFixture.errors("{ \(SettingsFixture.minimal) }", strict)
    #expect(
      errors.contains {
        $0.hasPrefix("access.anonymous.rateLimit.strict") && $0.contains("has no effect without shared.url")
      })
  }

  @Test("warn of commands that travel to another machine in clear")
  func plaintext() throws {
    func warnings(_ shared: String) throws -> [String] {
      try SettingsFixture(Self.file("shared: \(shared)")).load().draft.warnings.filter { $0.contains("shared.url") }
    }
    let fix = "Write rediss://, or keep the store on a private network."
    #expect(
      try warnings("{ url: 'redis://store' }") == [
        "shared.url is not rediss://, so commands travel to redis://store:6379 in clear. \(fix)"
      ])
    #expect(try warnings("{ url: 'redis://127.evil.example.com' }").count == 1)
    #expect(
      try warnings("{ url: 'redis://store', passwordFile: 'p' }").first?
        .contains("in clear, and the password with them.") == true)
    for local in ["redis://localhost", "redis://127.0.0.1:1", "redis://[::1]", "rediss://store", "unix:///s"] {
      #expect(try warnings("{ url: '\(local)' }").isEmpty)
    }
  }

  @Test(
    "read the password from a file of one line",
    arguments: [
      ("geheim\n", nil), ("geheim", nil), ("", "is empty or has several lines"),
      ("\n", "is empty or has several lines"),
      ("a\nb\n", "is empty or has several lines"), (String(repeating: "a", count: 1025), "is too large"),
    ])
  func password(_ content: String, _ problem: String?) throws {
    let directory = try TemporaryDirectory()
    let path = try directory.write(content, to: "password")
    let loaded = try SettingsFixture(
      Self.file("shared: { url: 'redis://localhost', passwordFile: '\(path)' }")
    ).load()
    var loader = FileLoader()
    let files = loader.store(of: try #require(loaded.settings.shared))
    if let problem {
      #expect(files.password == nil)
      #expect(loader.errors.map(\.description).contains { $0.contains(problem) && !$0.contains("geheim") })
    } else {
      #expect(loader.errors.isEmpty)
      #expect(files.password?.withBytes { bytes in bytes.indices.map { bytes[$0] } } == Array("geheim".utf8))
    }
  }
}
