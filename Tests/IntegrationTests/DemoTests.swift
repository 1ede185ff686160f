import TestSupport
import Testing

@Suite("The demo")
struct DemoTests {
  @Test("prints working commands, and its emulator ends with the demo")
  func commands() throws {
    let demo = try RunningServer(["demo", "--port", "0"], environment: [:])
    var lines: [String] = []
    while let line = try demo.process.line(), !line.contains("END PUBLIC KEY") { lines.append(line) }
    #expect(try demo.process.line()?.isEmpty == true)
    #expect(try demo.process.line() == "Open http://localhost:\(demo.port)")
    let commands = lines.filter { $0.hasPrefix("  curl ") }
    #expect(commands.count >= 7)
    for command in commands {
      let strict = "set -e; " + command.replacing("curl ", with: "curl --fail --noproxy '*' --max-time 60 ")
      let result = try run("sh", ["-c", strict])
      #expect(result.status == 0, "\(command): \(result.stderr)")
      #expect(!result.stdout.isEmpty, "\(command)")
      #expect(!command.contains("khalid") || result.stdout.contains("\"American Teen\""))
    }
    let emulator = try #require(lines.first { $0.contains(". Only this machine") }?.split(separator: " ").first)
    let port = try #require(emulator.dropLast().split(separator: ":").last.flatMap { UInt16($0) })
    _ = try RawConnection(port: port)
    #expect(demo.stop() == 0)
    #expect(throws: TestFailure.self) { try RawConnection(port: port) }
  }

  @Test("accepts only pages of this machine")
  func pages() throws {
    let demo = try RunningServer(["demo", "--port", "0"], environment: [:])
    for target in ["/token", CatalogGround.album, "/v1/me/storefront"] {
      let near = try demo.request(
        target, "-H", "Origin: http://localhost:3000", "-H", "Music-User-Token: sandbox-user-token")
      #expect(near.status == 200, "\(target)")
      #expect(near["Access-Control-Allow-Origin"] == "http://localhost:3000", "\(target)")
      #expect(
        try demo.request(target, "-H", "Origin: https://a.example").errorCode == "origin_not_allowed", "\(target)")
    }
  }

  @Test("answers the second catalog request from the cache")
  func cache() throws {
    let demo = try RunningServer(["demo", "--port", "0"], environment: [:])
    let target = "/v1/catalog/us/search?term=khalid&types=albums"
    #expect(!(try demo.request(target).isHit))
    #expect(try demo.request(target).isHit)
  }
}
