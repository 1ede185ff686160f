import Glibc
import JSON
import TestSupport
import Testing

@Suite("A server below a service manager")
struct ServiceManagerTests {
  private static func port() -> UInt16 { .random(in: 20_000..<30_000) }

  @Test("loses and refuses no request in ten restarts with a passed socket under load", arguments: ["epoll", "poll"])
  func restarts(_ poller: String) throws {
    let port = Self.port()
    let server = try ManagedServer(
      Ground(), ["--socket", "public=127.0.0.1:\(port)"],
      ["SERVER_LOOPS": "2", "SERVER_POLLER": poller, "LOG_LEVEL": "warning"])
    #expect(try server.url() == "http://127.0.0.1:\(port)")
    let load = try ChildProcess(Repository.python, [Repository.script("load.py"), "\(port)", "32"], holdsInput: true)
    for _ in 0..<10 {
      for _ in 0..<2 { #expect(try load.line() != nil) }
      server.command("restart")
      #expect(try server.line("ended ") == "ended 0")
      _ = try server.url()
    }
    load.closeInput()
    var last: String?
    while let line = try load.line() { last = line }
    let counts = try #require(last.flatMap { JSONReader.read(Array($0.utf8)) })
    #expect(counts["lost"] == .array([]))
    #expect(counts["refused"]?.integer == 0, "connections wait in the socket between two processes")
    #expect(try #require(counts["answered"]?.integer) >= 2000)
    server.command("stop")
    #expect(try server.line("ended ") == "ended 0")
  }

  @Test("starts by systemd-socket-activate at the first connection")
  func activated() throws {
    let port = Self.port()
    let ground = try Ground()
    let activator = "/usr/bin/systemd-socket-activate"
    guard unsafe access(activator, X_OK) == 0 else { return }
    let settings = ground.settings.merging(["PATH": "/usr/bin:/bin"]) { $1 }
    let process = try withExtendedLifetime(ground) {
      try ChildProcess(
        activator,
        ["--listen=127.0.0.1:\(port)"] + settings.map { "--setenv=\($0.key)=\($0.value)" } + [Program.path],
        environment: settings)
    }
    try process.waitForErrors("Listening on 127.0.0.1:\(port)")
    let response = try ParsedResponse(curl: ["http://127.0.0.1:\(port)/token"])
    #expect(response.status == 200)
    #expect(try process.line() == "Listening on http://127.0.0.1:\(port)")
    process.signal(SIGTERM)
    #expect(process.wait() == 0)
  }

  @Test(
    "warns of a passed Unix-domain socket to which every user may connect",
    arguments: [(0o666, 0o755, true), (0o666, 0o750, false), (0o660, 0o755, false)] as [(Int, mode_t, Bool)])
  func openSocket(_ mode: Int, _ folder: mode_t, _ isWarned: Bool) throws {
    let ground = try Ground()
    let path = ground.directory.path(of: "public.sock")
    #expect(unsafe chmod(ground.directory.path, folder) == 0)
    let server = try ManagedServer(ground, ["--socket", "public=\(path),0\(String(mode, radix: 8))"])
    #expect(try server.url() == "unix:\(path)")
    server.command("stop")
    #expect(try server.line("ended ") == "ended 0")
    #expect(server.process.standardError.contains("Every user of this machine may connect") == isWarned)
    #expect(server.process.standardError.contains("Write SocketMode=0660 in its unit.") == isWarned)
  }

  @Test("uses the sockets by their names, and a Unix-domain socket stays for the next process")
  func names() throws {
    let ground = try Ground()
    let path = ground.directory.path(of: "public.sock")
    let first = Self.port()
    // Both are below the ports that the system gives to connections.
    let second = first + 2500
    let server = try ManagedServer(
      ground,
      [
        "--socket", "public=127.0.0.1:\(first)", "--socket", "public=\(path)", "--socket", "admin=127.0.0.1:\(second)",
      ])
    #expect(try server.url() == "http://127.0.0.1:\(first)")
    #expect(try server.url() == "unix:\(path)")
    #expect(try server.line("Admin on ") == "Admin on http://127.0.0.1:\(second)")
    #expect(try ParsedResponse(curl: ["http://127.0.0.1:\(first)/token"]).status == 200)
    #expect(try ParsedResponse(curl: ["http://127.0.0.1:\(first)/metrics"]).status == 404)
    #expect(try ParsedResponse(curl: ["http://127.0.0.1:\(second)/metrics"]).status == 200)
    #expect(try ParsedResponse(curl: ["-H", "Host: evil.org", "http://127.0.0.1:\(second)/metrics"]).status == 421)
    for _ in 0..<2 {
      #expect(try ParsedResponse(curl: ["--unix-socket", path, "http://localhost/token"]).status == 200)
      server.command("restart")
      #expect(try server.line("ended ") == "ended 0")
    }
    _ = try server.url()
    server.command("stop")
    #expect(try server.line("ended ") == "ended 0")
  }

  @Test("does not start with a socket that it cannot use, and says why")
  func unusable() throws {
    let ground = try Ground()
    let server = try ManagedServer(ground, ["--socket", "web=127.0.0.1:0"])
    try server.process.waitForErrors("The service manager passes a socket with the name \"web\"; write")
    let file = try ManagedServer(ground, ["--socket", "admin=127.0.0.1:0"], ["ADMIN_ENABLED": "false"])
    try file.process.waitForErrors("admin.enabled")
    // One socket for both listeners.
    let both = try run(
      Repository.python,
      [
        "-c",
        """
        import os, socket, sys
        shared = socket.create_server(("127.0.0.1", 0))
        high = os.dup(shared.fileno()), os.dup(shared.fileno())
        for number, descriptor in enumerate([os.dup2(each, 100 + each) for each in high]):
            os.dup2(descriptor, 3 + number, inheritable=True)
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="2", LISTEN_FDNAMES="public:admin")
        os.execv(sys.argv[1], sys.argv[1:])
        """, Program.path,
      ], environment: ground.settings)
    #expect(both.status == 78, "\(both.stderr)")
    #expect(both.stderr.contains("passes the same socket, 127.0.0.1:"), "\(both.stderr)")
    #expect(both.stderr.contains("with the names \"public\" and \"admin\"; give each listener"), "\(both.stderr)")
    // A descriptor that is not a socket.
    let result = try run(
      "sh", ["-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" 3</dev/null", Program.path], environment: ground.settings)
    #expect(result.status == 78)
    #expect(result.stderr.contains("passes descriptor 3, which is not a listening stream socket"))
  }

  @Test("ignores descriptors for another process, and keeps the variables from no child")
  func otherProcess() throws {
    let server = try Ground().serve(["LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "public"])
    #expect(try server.request("/token").status == 200)
  }

  @Test("tells when it is ready, reloads and stops", arguments: [false, true])
  func messages(_ isAbstract: Bool) throws {
    let ground = try Ground()
    let path = ground.directory.path(of: "notify")
    let server = try ManagedServer(ground, ["--notify", isAbstract ? "@\(path)" : path])
    let url = try server.url()
    #expect(try server.line("notify ").hasPrefix("notify READY=1;STATUS=Listening on \(url), Admin on http://"))
    #expect(try ParsedResponse(curl: ["\(url)/token"]).status == 200)
    server.command("reload")
    let reloading = try server.line("notify ")
    #expect(reloading.wholeMatch(of: /notify RELOADING=1;MONOTONIC_USEC=[0-9]+/) != nil, "\(reloading)")
    #expect(try server.line("notify ") == "notify READY=1;STATUS=Configuration reloaded")
    server.command("stop")
    #expect(try server.line("notify ") == "notify STOPPING=1;STATUS=Draining;EXTEND_TIMEOUT_USEC=40000000")
    #expect(try server.line("ended ") == "ended 0")
  }

  @Test("gives the watchdog signs of life, also during a drain")
  func watchdog() throws {
    let ground = try Ground()
    let path = ground.directory.path(of: "notify")
    let server = try ManagedServer(
      ground, ["--notify", path, "--watchdog", "200000"], ["SERVER_LOOPS": "3", "SERVER_DRAIN_DELAY": "2s"])
    #expect(try server.line("notify ").hasPrefix("notify READY=1;"))
    for _ in 0..<3 { #expect(try server.line("notify ") == "notify WATCHDOG=1") }
    server.command("stop")
    _ = try server.line("notify STOPPING=1")
    #expect(try server.line("notify ") == "notify WATCHDOG=1")
    #expect(try server.line("ended ") == "ended 0")
  }

  @Test("gives no signs of life if the watchdog is another process's")
  func otherWatchdog() throws {
    let ground = try Ground()
    let path = ground.directory.path(of: "notify")
    let server = try ManagedServer(
      ground, ["--notify", path, "--watchdog", "2"], ["WATCHDOG_PID": "1", "SERVER_DRAIN_DELAY": "1s"])
    #expect(try server.line("notify ").hasPrefix("notify READY=1;"))
    server.command("stop")
    #expect(try server.line("ended ") == "ended 0")
    #expect(!server.lines.contains("notify WATCHDOG=1"))
  }

  @Test(
    "does not start with an invalid NOTIFY_SOCKET", arguments: ["relative", "/", String(repeating: "/a", count: 60)])
  func invalid(_ address: String) throws {
    let result = try Ground().run(["serve"], ["NOTIFY_SOCKET": address])
    #expect(result.status == 78)
    #expect(result.stderr.contains("NOTIFY_SOCKET is neither an absolute path nor"), "\(result.stderr)")
  }
}
