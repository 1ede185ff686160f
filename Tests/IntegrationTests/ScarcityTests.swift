import Glibc
import JSON
import TestSupport
import Testing

@Suite("A server with too few resources")
struct ScarcityTests {
  private static let request = "GET /token HTTP/1.1\r\nHost: a\r\n\r\n"

  @Test("serves its open connections without free descriptors, and accepts others when some close")
  func descriptors() throws {
    let ground = try Ground()
    let server = try RunningServer(
      "/bin/sh", ["-c", "ulimit -n 256 && exec \"$0\" --set log.format=json", Program.path],
      environment: ground.settings)
    // The limit is lowered during operation, as an administrator may do with prlimit(1).
    let first = try server.connect()
    first.send(Self.request)
    #expect(try first.response().status == 200)
    let used = try run("sh", ["-c", "ls /proc/\(server.process.id)/fd | wc -l"]).stdout
    let open = try #require(Int(used.filter(\.isNumber)))
    #expect(try run("prlimit", ["--pid", "\(server.process.id)", "--nofile=\(open + 4)"]).status == 0)
    let others = try (0..<40).map { _ in try server.connect() }
    for _ in 0..<50 {
      first.send(Self.request)
      #expect(try first.response().status == 200)
    }
    for connection in others { connection.finishSending() }
    let late = try server.connect()
    late.send(Self.request)
    #expect(try late.response().status == 200)
    #expect(server.stop() == 0)
    // One warning for all failed attempts. There are ten attempts per second, and a second warning comes after ten
    // seconds.
    let warnings = server.logLines.compactMap { $0 }.filter { $0["level"]?.string == "warning" }
    #expect(warnings.count == 1, "\(server.log)")
  }

  @Test("has descriptors for probes when the process has no others left")
  func probes() throws {
    let server = try Ground().serve()
    let used = try run("sh", ["-c", "ls /proc/\(server.process.id)/fd | wc -l"]).stdout
    let open = try #require(Int(used.filter(\.isNumber)))
    let pid = "\(server.process.id)"
    #expect(try run("prlimit", ["--pid", pid, "--nofile=\(open):"]).status == 0)
    let others = try (0..<10).map { _ in try server.connect() }
    for connection in others { connection.send(Self.request) }
    // The count is not the highest number, so the first of them may still get one.
    wait(for: "no descriptor is left") { server.log.contains("The server pauses accepting connections") }
    for path in ["/healthz", "/readyz", "/metrics"] {
      for _ in 0..<20 {
        let response = try server.admin(path)
        #expect(response.status == 200)
        // A connection that stays would hold one of the last descriptors.
        #expect(response["Connection"] == "close")
      }
    }
    #expect(try run("prlimit", ["--pid", pid, "--nofile=1024:"]).status == 0)
    for connection in others { #expect(try connection.response().status == 200) }
    #expect(server.stop() == 0)
  }

  @Test("continues if the disk of its log is full")
  func fullDisk() throws {
    let ground = try Ground()
    let server = try RunningServer(
      "/bin/sh", ["-c", "exec \"$0\" 2>/dev/full", Program.path], environment: ground.settings)
    for _ in 0..<20 { #expect(try server.request("/token").status == 200) }
    #expect(server.stop() == 0)
  }

  @Test("continues without standard streams, and keeps their numbers free of sockets")
  func closedOutput() throws {
    let ground = try Ground()
    let port = UInt16.random(in: 20_000..<30_000)
    let process = try ChildProcess(
      "/bin/sh", ["-c", "exec \"$0\" <&- >&- 2>&-", Program.path],
      environment: ground.settings.merging(["SERVER_PORT": "\(port)"]) { $1 })
    // The server cannot print that it listens, so the test connects until it succeeds.
    var connection: RawConnection?
    try eventually("the server listens on port \(port)") {
      connection = try? RawConnection(port: port)
      return connection != nil
    }
    for _ in 0..<20 {
      connection?.send(Self.request)
      #expect(try connection?.response().status == 200)
    }
    for number in 0...2 {
      #expect(try run("readlink", ["/proc/\(process.id)/fd/\(number)"]).stdout == "/dev/null\n")
    }
    process.signal(SIGTERM)
    #expect(process.wait() == 0)
  }

  @Test("with many loops answers each excess connection with 503")
  func manyLoops() throws {
    let ground = try Ground()
    let server = try RunningServer(
      "/bin/bash", Start(["--set", "log.format=json"], files: 512).shell,
      environment: ground.settings.merging(["SERVER_LOOPS": "40"]) { $1 })
    var connections: [RawConnection] = []
    var statuses: [Int: Int] = [:]
    for _ in 0..<330 {
      let connection = try server.connect()
      connection.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
      statuses[try connection.response().status, default: 0] += 1
      connections.append(connection)
    }
    #expect(statuses == [200: 88, 503: 242])
    #expect(try MetricsPage(of: server)["musickit_accept_pauses_total"] == 0)
    #expect(server.stop() == 0)
  }

  @Test(
    "does not start without enough descriptors, and prints one sentence",
    arguments: [
      Start([], files: 5), Start([], files: 8), Start([], files: 9), Start([], files: 12), Start([], files: 63),
      Start([], files: 375, loops: 40), Start(["demo", "--port", "0"], files: 5),
      Start(["demo", "--port", "0"], files: 16), Start(["demo", "--port", "0"], files: 84),
      Start(["sandbox", "--port", "0"], files: 7), Start(["sandbox", "--port", "0"], files: 15),
      Start([], files: 84, inherited: 30),
    ])
  func tooFewDescriptors(_ start: Start) throws {
    let ground = try Ground()
    // The time limit ends a server that starts by mistake.
    let result = try run("timeout", ["60", "/bin/bash"] + start.shell, environment: start.environment(ground))
    #expect(result.status == 78)
    #expect(result.stdout == "")
    #expect(result.stderr.contains("raise the limit of descriptors (ulimit -n, LimitNOFILE)"), "\(result.stderr)")
    #expect(result.stderr.split(separator: "\n").count == 1, "\(result.stderr)")
  }

  @Test(
    "answers each excess connection with 503, even with the fewest descriptors that suffice for a start",
    arguments: [
      Start([], files: 64), Start([], files: 71), Start([], files: 376, loops: 40),
      Start(["demo", "--port", "0"], files: 85), Start([], files: 94, inherited: 30),
    ])
  func fewestDescriptors(_ start: Start) throws {
    let ground = try Ground()
    let server = try RunningServer("/bin/bash", start.shell, environment: start.environment(ground))
    var connections: [RawConnection] = []
    var statuses: [Int] = []
    for _ in 0..<100 {
      let connection = try server.connect()
      connection.send("GET /v1/catalog/us/albums/1200868601 HTTP/1.1\r\nHost: localhost\r\n\r\n")
      statuses.append(try connection.response().status)
      connections.append(connection)
    }
    #expect(statuses.prefix(5).allSatisfy { $0 != 503 }, "\(statuses)")
    #expect(statuses.last == 503)
    #expect(try server.admin("/healthz").status == 200)
    #expect(try MetricsPage(of: server)["musickit_accept_pauses_total"] == 0)
    #expect(server.stop() == 0)
  }

  /// A start with few descriptors.
  struct Start: Sendable, CustomTestStringConvertible {
    let arguments: [String]
    let files: Int
    let inherited: Int
    let loops: Int

    init(_ arguments: [String], files: Int, inherited: Int = 0, loops: Int = 1) {
      (self.arguments, self.files, self.inherited, self.loops) = (arguments, files, inherited, loops)
    }

    /// A script that closes the descriptors of the tests, opens `inherited` others, sets the limit, and then becomes
    /// the program.
    var shell: [String] {
      let closing = "for file in /proc/self/fd/*; do file=${file##*/}; ((file < 3)) || exec {file}>&-; done; "
      let opening = closing + "for ((i = 0; i < \(inherited); i++)); do exec {file}</dev/null; done; "
      return ["-c", "\(opening)ulimit -n \(files) && exec \"$0\" \"$@\"", Program.path] + arguments
    }

    func environment(_ ground: Ground) -> [String: String] {
      ground.settings.merging([
        "SERVER_LOOPS": "\(loops)", "ACCESS_ANONYMOUS": "{ token: true, catalog: true }",
        "CATALOG_UPSTREAM": "http://127.0.0.1:1",
      ]) { $1 }
    }

    var testDescription: String {
      "\(arguments.first ?? "serve"), \(files) descriptors (\(inherited) of them open), \(loops) loops"
    }
  }

  @Test("does not start without enough threads, and prints one sentence")
  func threads() throws {
    let ground = try Ground()
    // Each thread asks for a stack that is larger than the address space of the process may be.
    let result = try run(
      "/bin/sh", ["-c", "ulimit -s 8000000 && ulimit -v 6000000 && exec \"$0\"", Program.path],
      environment: ground.settings.merging(["SERVER_LOOPS": "2"]) { $1 })
    #expect(result.status == 78)
    #expect(result.stdout == "")
    #expect(
      result.stderr.hasPrefix("The system grants this process 0 of the 7 threads that it needs"), "\(result.stderr)")
    #expect(result.stderr.split(separator: "\n").count == 1)
  }

  @Test("answers each connection beyond the limit with 503, and logs one warning")
  func connections() throws {
    let server = try Ground().serve(["SERVER_LIMITS_CONNECTIONS": "4"])
    let kept = try (0..<4).map { _ in
      let connection = try server.connect()
      connection.send(Self.request)
      _ = try connection.response()
      return connection
    }
    for _ in 0..<20 {
      let response = try server.connect().response()
      #expect(response.status == 503)
      #expect(response.errorCode == "overloaded")
      #expect(response["Retry-After"] != nil)
    }
    for connection in kept {
      connection.send(Self.request)
      #expect(try connection.response().status == 200)
    }
    server.stop()
    let warnings = server.logLines.compactMap { $0 }.filter { $0["level"]?.string == "warning" }
    #expect(warnings.count == 1, "\(server.log)")
  }
}
