import Glibc
import JSON
import TestSupport
import Testing

@Suite("A server that shuts down")
struct RestartTests {
  @Test("loses no request in ten restarts by SIGTERM under load", arguments: ["epoll", "poll"])
  func restarts(_ poller: String) throws {
    let ground = try Ground()
    // Outside the range of ephemeral ports, so that no client takes the port between two servers.
    let settings = [
      "SERVER_PORT": "\(UInt16.random(in: 20_000..<30_000))", "SERVER_POLLER": poller, "SERVER_LOOPS": "2",
      "LOG_LEVEL": "warning",
    ]
    var server = try ground.serve(settings)
    let load = try ChildProcess(
      Repository.python, [Repository.script("load.py"), "\(server.port)", "32"], holdsInput: true)
    for _ in 0..<10 {
      // Every hundredth response: after two of these all connections are busy again.
      for _ in 0..<2 { #expect(try load.line() != nil) }
      #expect(server.stop() == 0)
      server = try ground.serve(settings)
    }
    load.closeInput()
    var last: String?
    while let line = try load.line() { last = line }
    let counts = try #require(last.flatMap { JSONReader.read(Array($0.utf8)) })
    #expect(counts["lost"] == .array([]))
    #expect(counts["late"]?.integer == 0, "a connection without a request is waited for")
    #expect(try #require(counts["answered"]?.integer) >= 2000)
  }

  @Test(
    "loses and refuses no request in five hand-overs to a successor on the same ports", arguments: ["epoll", "poll"])
  func handOver(_ poller: String) throws {
    let ground = try Ground()
    let port = UInt16.random(in: 20_000..<25_000)
    let settings = [
      "SERVER_PORT": "\(port)", "ADMIN_PORT": "\(port + 5000)", "SERVER_POLLER": poller, "SERVER_LOOPS": "2",
      "SERVER_REUSE_PORT": "true", "LOG_LEVEL": "warning",
    ]
    var server = try ground.serve(settings)
    let load = try ChildProcess(Repository.python, [Repository.script("load.py"), "\(port)", "32"], holdsInput: true)
    for _ in 0..<5 {
      for _ in 0..<2 { #expect(try load.line() != nil) }
      let successor = try ground.serve(settings)
      #expect(server.stop() == 0)
      server = successor
    }
    let refused = try ground.run(["serve"], settings.merging(["SERVER_REUSE_PORT": "false"]) { $1 })
    #expect(refused.status == 75)
    #expect(refused.stderr.contains("another program listens there already"))
    load.closeInput()
    var last: String?
    while let line = try load.line() { last = line }
    let counts = try #require(last.flatMap { JSONReader.read(Array($0.utf8)) })
    #expect(counts["lost"] == .array([]))
    #expect(counts["refused"]?.integer == 0, "a listener is always there")
    #expect(try #require(counts["answered"]?.integer) >= 1000)
  }

  @Test("loses no request behind a relay with a delay of 80 ms in each direction")
  func relay() throws {
    let ground = try Ground()
    let settings = [
      "SERVER_PORT": "\(UInt16.random(in: 20_000..<30_000))", "SERVER_LOOPS": "2", "LOG_LEVEL": "warning",
    ]
    var server = try ground.serve(settings)
    let relay = try ChildProcess(
      Repository.python, [Repository.script("relay.py"), "\(server.port)", "80"], holdsInput: true)
    let port = try #require(try relay.line())
    let load = try ChildProcess(Repository.python, [Repository.script("load.py"), port, "32"], holdsInput: true)
    for _ in 0..<3 {
      #expect(try load.line() != nil)
      #expect(server.stop() == 0)
      server = try ground.serve(settings)
    }
    #expect(try load.line() != nil)
    load.closeInput()
    var last: String?
    while let line = try load.line() { last = line }
    let counts = try #require(last.flatMap { JSONReader.read(Array($0.utf8)) })
    #expect(counts["lost"] == .array([]))
    #expect(counts["idle"]?.integer == 0)
    #expect(counts["late"]?.integer == 0)
    relay.closeInput()
    #expect(relay.wait() == 0)
  }

  @Test("closes idle connections and ends with status 0", arguments: [SIGTERM, SIGINT])
  func idle(_ signal: Int32) throws {
    let server = try Ground().serve()
    let used = try server.connect()
    used.send("GET /token HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(try used.response().status == 200)
    #expect(server.stop(signal) == 0)
    #expect(try used.isClosedByPeer())
  }

  @Test("answers a request whose content is incomplete, and then closes the connection")
  func underWay() throws {
    let server = try Ground().serve()
    let connection = try server.connect()
    connection.send("POST /token HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    #expect(try connection.interimResponse() == "HTTP/1.1 100 Continue")
    server.process.signal(SIGTERM)
    // The connection is refused once the server has closed its listener.
    try eventually("the server accepts no more connections") { (try? RawConnection(port: server.port)) == nil }
    connection.send("{}")
    let response = try connection.response()
    #expect(response.status == 200)
    #expect(response["Connection"] == "close")
    #expect(server.process.wait() == 0)
  }

  @Test("answers a request that is incomplete at the drain timeout with 503 and Retry-After")
  func timeout() throws {
    let server = try Ground().serve(["SERVER_DRAIN_TIMEOUT": "1s"])
    let connection = try server.connect()
    connection.send("POST /token HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    #expect(try connection.interimResponse() == "HTTP/1.1 100 Continue")
    server.process.signal(SIGTERM)
    let response = try connection.response()
    #expect(response.status == 503)
    #expect(response.errorCode == "draining")
    #expect(response["Retry-After"] != nil)
    #expect(server.process.wait() == 0)
  }

  @Test("ends immediately after a second signal", arguments: [SIGTERM, SIGINT])
  func secondSignal(_ signal: Int32) throws {
    let server = try Ground().serve(["SERVER_DRAIN_DELAY": "1h"])
    server.process.signal(SIGTERM)
    try eventually("the server is not ready") { try server.request("/readyz").status != 200 }
    server.process.signal(signal)
    #expect(server.process.wait() != 0, "it did not drain")
  }
}
