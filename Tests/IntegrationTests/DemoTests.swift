import JSON
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
    #expect(lines.contains("Only this machine can reach it.") && demo.urls.allSatisfy(Self.isLoopback))
    let commands = lines.filter { $0.hasPrefix("  curl ") }
    #expect(commands.count >= 7)
    for command in commands {
      let strict = "set -e; " + command.replacing("curl ", with: "curl --fail --noproxy '*' --max-time 60 ")
      let result = try run("sh", ["-c", strict])
      #expect(result.status == 0, "\(command): \(result.stderr)")
      #expect(!result.stdout.isEmpty, "\(command)")
      #expect(!command.contains("khalid") || result.stdout.contains("\"American Teen\""))
    }
    let emulator = try #require(lines.first { $0.contains("emulator at") })
    let port = try #require(emulator.dropLast().split(separator: ":").last.flatMap { UInt16($0) })
    _ = try RawConnection(port: port)
    #expect(demo.stop() == 0)
    #expect(throws: TestFailure.self) { try RawConnection(port: port) }
  }

  private static func isLoopback(_ url: String) -> Bool { url.contains("://127.0.0.1:") || url.contains("://[::1]:") }

  @Test(
    "listens on other addresses than loopback only by a flag, and says what it opens; the image's first argument is one",
    arguments: [
      (["demo", "--host", "*"], true), (["--container", "demo"], true),
      (["--container", "demo", "--host", "::1"], false),
      (["demo"], false),
    ])
  func host(_ arguments: [String], _ isOpen: Bool) throws {
    let demo = try RunningServer(
      arguments + ["--port", "0"], environment: ["SERVER_HOST": "*", "ADMIN_HOST": "*", "PORT": "1", "HOST": "*"])
    #expect(demo.urls.allSatisfy(Self.isLoopback) == !isOpen)
    #expect(Self.isLoopback(try #require(demo.adminURL)))
    var lines: [String] = []
    while let line = try demo.process.line(), !line.hasPrefix("Open") { lines.append(line) }
    let opens =
      "Every machine that reaches port \(demo.port) here can use it (--host). Admin listener and emulator stay on "
    #expect(lines.contains { $0.hasPrefix(opens) } == isOpen)
    #expect(lines.contains { $0.hasPrefix("  curl") && $0.contains("/readyz") } == !isOpen)
    #expect(try demo.request("/page/facts").json?["liveURL"] == nil || !isOpen)
    #expect(try demo.request("/token").status == 200)
  }

  @Test("keeps its instructions as the last lines at a terminal, and a visit of the page is one line")
  func terminal() throws {
    let demo = try RunningServer(
      Repository.python, [Repository.script("with_terminal.py"), Program.path, "demo", "--port", "0"], environment: [:])
    let page = try demo.request("/").text
    let parts = page.matches(of: /(?:src|href)="(\/page\/[^"]+)"/).map { String($0.output.1) }
    #expect(parts.count >= 2)
    for part in parts + ["/page/facts"] { #expect(try demo.request(part).status == 200, "\(part)") }
    #expect(try demo.request("/page/nothing").status == 404)
    demo.stop()
    let lines = demo.log.split(whereSeparator: \.isNewline)
    #expect(lines.count { $0.contains("GET /  ") } == 1 && lines.first?.contains("GET /  ") == true, "\(demo.log)")
    #expect(lines.count { $0.contains("GET /page/") } == 1, "\(demo.log)")
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
