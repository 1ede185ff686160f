import Testing

@testable import Redis

@Suite("What a server of Redis says of itself")
struct RedisFactsTests {
  private func facts(_ words: [String]) -> RedisFacts { RedisFacts(.array(words.map { .text(Array($0.utf8)) })) }

  @Test("is its name, its mode and its role")
  func known() {
    let found = facts(["server", "redis", "version", "7.0.15", "proto", "3", "mode", "standalone", "role", "master"])
    #expect(found.name == "redis 7.0.15" && found.mode == "standalone" && found.role == "master")
    #expect(facts(["server", "valkey"]).name == "valkey")
  }

  @Test(
    "is unknown if it is anything else, such as what a terminal would obey",
    arguments: [
      [], ["server"], ["role", "a\u{1B}[2J"], ["mode", "server", "redis"],
      ["role", String(repeating: "a", count: 41)],
    ])
  func unknown(_ words: [String]) {
    #expect(facts(words).name == nil && facts(words).role == nil)
    #expect(RedisFacts(.text([1])) == RedisFacts(.null) && RedisFacts(.integer(1)).mode == nil)
  }
}
