import Glibc
import TestSupport
import Testing

@Suite("The server process")
struct ProcessHardeningTests {
  private static let nobody = 65_534

  /// A server with its key from the environment.
  private static func server(_ ground: Ground) throws -> RunningServer {
    var environment = ground.settings
    environment["MUSICKIT_KEY_FILE"] = nil
    environment["MUSICKIT_KEY"] = ground.key.pem
    environment["MUSICKIT_KEY_ID"] = Ground.keyID
    guard getuid() == 0 else { return try RunningServer([], environment: environment) }
    // A process of root always shows root as the owner, so only a process of another user shows whether it is dumpable.
    return try RunningServer(
      "setpriv", ["--reuid", "\(nobody)", "--regid", "\(nobody)", "--clear-groups", Program.path],
      environment: environment)
  }

  /// Whether another user may execute the program in its folder.
  static let othersMayRun =
    getuid() != 0
    || (try? run("setpriv", ["--reuid", "\(nobody)", "--clear-groups", "test", "-x", Program.path]))?.status == 0

  @Test(
    "is not dumpable, so its memory belongs to root",
    .enabled(if: othersMayRun, "the build is in a folder that only root may enter"))
  func notDumpable() throws {
    let server = try Self.server(try Ground())
    var status = stat()
    #expect(unsafe stat("/proc/\(server.process.id)/environ", &status) == 0)
    #expect(status.st_uid == 0)
    // The directory itself keeps its owner, so only the owner of a file shows the difference.
    #expect(try server.request("/token").status == 200)
  }

  @Test("writes no core file")
  func noCore() throws {
    let server = try Ground().serve()
    let limits = try TextFile.read("/proc/\(server.process.id)/limits").split(separator: "\n")
    let core = try #require(limits.first { $0.hasPrefix("Max core file size") })
    #expect(core.split(separator: " ").dropFirst(4).prefix(2) == ["0", "0"])
  }

  @Test("gives up new privileges in every thread, and says what the kernel granted")
  func privileges() throws {
    let server = try Ground().serve()
    #expect(try server.request("/token").status == 200)
    let threads = try run("/bin/sh", ["-c", "grep -h NoNewPrivs /proc/\(server.process.id)/task/*/status"])
      .stdout.split(separator: "\n")
    #expect(threads.count > 3)
    #expect(threads.allSatisfy { $0.hasSuffix("\t1") }, "\(threads)")
    try server.process.waitForErrors("\"message\":\"File access ")
    #expect(server.stop() == 0)
  }

  @Test("keeps all files with server.landlock = false, and says so")
  func unrestricted() throws {
    let server = try Ground().serve(["SERVER_LANDLOCK": "false"])
    try server.process.waitForErrors(
      #""message":"File access not restricted","label":"server","reason":"server.landlock is false""#)
    #expect(server.stop() == 0)
  }

  @Test(
    "removes the key from its environment",
    .enabled(if: getuid() == 0, "only root may look at the environment of a process that is not dumpable"))
  func environment() throws {
    let ground = try Ground()
    var settings = ground.settings
    settings["MUSICKIT_KEY_FILE"] = nil
    settings["MUSICKIT_KEY"] = ground.key.pem
    settings["MUSICKIT_KEY_ID"] = Ground.keyID
    let server = try RunningServer([], environment: settings)
    let environment = try TextFile.read("/proc/\(server.process.id)/environ")
    #expect(try !SecrecyTests.leaks(ground.key.pem, in: environment))
  }

  @Test("survives clients that close while the server writes")
  func brokenPipe() throws {
    let server = try Ground().serve()
    for _ in 0..<20 {
      try server.connect().send(String(repeating: "GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n", count: 200))
    }
    #expect(try server.request("/token").status == 200)
    #expect(server.stop() == 0)
  }
}
