import HTTP1
import HTTPMessages
import HTTPTypes
import Memory
import TLS
import TestSupport
import Testing

@testable import EventLoop
@testable import HTTPServer

/// What the server refuses when it has more work than it can do in time.
@Suite struct OverloadTests {
  /// Limits by which all work that may be late is late.
  private static let overloaded = {
    var limits = ServerLimits()
    limits.promptWork = .milliseconds(-1)
    limits.lateWork = .milliseconds(-1)
    limits.burst = .zero
    return limits
  }()

  private static let router = Router([
    Route(below: "/tasks/") { _ in .deferred(DeferredWork { _ in Response(.ok, body: Array("done".utf8)) }) },
    Route(below: "/stored/", isRefusedEarly: true) { request in
      guard request.method != .options else { return .immediate(Response(.noContent)) }
      return .deferred(
        DeferredWork(
          instead: { Response(.ok, body: Array("stored".utf8)) },
          begin: { _, respond in
            respond(Response(.ok, body: Array("done".utf8)))
            return nil
          }))
    },
    Route(below: "/cheap/") { _ in .immediate(Response(.ok, body: Array("cheap".utf8))) },
    Route("/hello", [.get { _ in Response(.ok, body: Array("hello".utf8)) }]),
    Route(below: "/waited/") { _ in
      .deferred(DeferredWork { context in Response(.ok, body: Array("\(context.waited >= .milliseconds(5))".utf8)) })
    },
    Route(below: "/slow/") { _ in
      let end = Deadline.now.advanced(by: .milliseconds(5))
      wait(for: "five milliseconds have passed") { Deadline.now > end }
      return .immediate(Response(.ok))
    },
  ])

  @Test("work knows how long it has waited for its turn")
  func waited() throws {
    let server = try TestServer(Variant.plain[0], router: Self.router)
    let clients = try (0..<2).map { _ in try server.connect() }
    server.waitForConnections(2)
    for second in ["/hello", "/slow/x"] {
      let gate = Gate()
      server.occupy(until: gate)
      try clients[0].send("GET /waited/x HTTP/1.1\r\nHost: a\r\n\r\n")
      try clients[1].send("GET \(second) HTTP/1.1\r\nHost: a\r\n\r\n")
      gate.open()
      let text = try #require(try clients[0].response()).text
      // Without slow work in the turn, only a busy machine makes it wait.
      if second == "/slow/x" { #expect(text == "true") }
      #expect(try clients[1].response()?.status == 200)
    }
  }

  @Test(
    "work that waits gets 503 with Retry-After, and the connection continues with other requests",
    arguments: Variant.plain)
  func requests(_ variant: Variant) throws {
    let server = try TestServer(variant, limits: Self.overloaded, router: Self.router)
    let client = try server.connect()
    for _ in 0..<3 {
      try client.send("GET /tasks/x HTTP/1.1\r\nHost: a\r\n\r\n")
      let refusal = try #require(try client.response())
      #expect(refusal.status == 503)
      #expect(refusal["retry-after"] == "1")
      #expect(!refusal.isLast)
      try expectError(refusal, code: "overloaded")
      try client.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
      #expect(try client.response()?.status == 200)
    }
    #expect(server.recorder.shed.requests == 3)
  }

  @Test("work that is too late gets another response if there is one", arguments: Variant.plain)
  func instead(_ variant: Variant) throws {
    let server = try TestServer(variant, limits: Self.overloaded, router: Self.router)
    // The first is refused when its turn comes, and later ones before they wait.
    for _ in 0..<3 {
      #expect(try server.responses(to: "GET /stored/x HTTP/1.0\r\n\r\n").map(\.text) == ["stored"])
    }
    #expect(server.recorder.shed.requests == 0)
  }

  @Test(
    "if the loop is behind, requests of an address with a full line are refused before their handlers see them",
    arguments: [false, true])
  func early(isBehind: Bool) throws {
    var limits = Self.limits(burst: .seconds(60))
    limits.promptTurn = isBehind ? .milliseconds(-1) : .seconds(60)
    limits.lateWork = .seconds(60)
    let server = try TestServer(Variant.plain[0], limits: limits, router: Self.router)
    let others = try server.connect()
    server.waitForConnections(1)
    // Two requests of the client's address wait, and one of them is late.
    _ = server.workers { worker in
      guard let connection = worker.connections.first else { return }
      let holder = connection.peer.client.holder
      for _ in 0..<2 { worker.waiting[.request].add(connection, of: holder, at: worker.loop.now) }
      _ = worker.waiting.next(at: worker.loop.now, limits: Self.overloaded)
    }
    do {
      let client = try server.connect()
      for _ in 0..<3 {
        try client.send("GET /stored/x HTTP/1.1\r\nHost: a\r\n\r\n")
        let response = try #require(try client.response())
        #expect(response.status == (isBehind ? 503 : 200))
        #expect(response["retry-after"] == (isBehind ? "1" : nil))
        #expect(!response.isLast)
        #expect(Self.ranks(on: server) == (isBehind ? [.first, .last] : [.first, .first]))
        #expect(server.workers { Array($0.deprioritisedOfAddress.values) } == [isBehind ? [1] : []])
        // Neither other routes nor preflight requests.
        for (line, status) in [("GET /hello", 200), ("GET /cheap/x", 200), ("OPTIONS /stored/x", 204)] {
          try client.send("\(line) HTTP/1.1\r\nHost: a\r\n\r\n")
          #expect(try client.response()?.status == status)
        }
      }
      #expect(server.recorder.shed.requests == (isBehind ? 3 : 0))
      // A client with few connections is not put last for good.
      #expect(Self.ranks(on: server) == [.first, .first])
      try client.send("GET /stored/x HTTP/1.1\r\nHost: a\r\n\r\n")
      #expect(try client.response()?.status == (isBehind ? 503 : 200))
    }
    server.waitForConnections(1)
    #expect(server.workers { $0.deprioritisedOfAddress.count } == [0])
    withExtendedLifetime(others) {}
  }

  @Test(
    "a loop that is behind reads new connections last if many requests of their address wait; late ones after a burst get 503",
    arguments: [false, true],
    [
      (late: Duration.milliseconds(1), burst: Duration.zero), (late: .seconds(60), burst: .zero),
      (late: .milliseconds(1), burst: .seconds(60)),
    ])
  func last(isBehind: Bool, times: (late: Duration, burst: Duration)) throws {
    let (server, other) = try Self.serverWithWaitingRequests(
      isBehind: isBehind, lateWork: times.late, burst: times.burst, promptWork: .zero)
    let client = try server.connect()
    server.waitForConnections(2)
    #expect(Self.ranks(on: server) == (isBehind ? [.first, .last] : [.first, .first]))
    let gate = Gate()
    server.occupy(until: gate)
    try client.send("GET /stored/x HTTP/1.1\r\nHost: a\r\n\r\n")
    let late = Deadline.now.advanced(by: .milliseconds(20))
    wait(for: "the request is late") { Deadline.now > late }
    gate.open()
    let isLate = isBehind && times.late < .milliseconds(20) && times.burst == .zero
    #expect(try client.response()?.status == (isLate ? 503 : 200))
    #expect(server.recorder.shed.requests == (isLate ? 1 : 0))
    try client.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(try client.response()?.status == 200)
    withExtendedLifetime(other) {}
  }

  @Test("a deprioritised connection has the first rank again when the loop is no longer behind")
  func regained() throws {
    let server = try TestServer(Variant.plain[0], router: Self.router)
    let client = try server.connect()
    server.waitForConnections(1)
    _ = server.workers { worker in for connection in worker.connections { connection.channel.rank = .last } }
    try client.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(try client.response()?.status == 200)
    #expect(Self.ranks(on: server) == [.first])
  }

  @Test("an address has a share of the deprioritised connections, and further ones are reset if they would be late")
  func resetConnections() throws {
    // All addresses together have a quarter of the connections. The first connection is not deprioritised.
    for (connections, share) in [(40, 10), (16, 6)] {
      let (server, other) = try Self.serverWithWaitingRequests(isBehind: true, connections: connections)
      let clients = try (0..<share).map { _ in try server.connect() }
      server.waitForConnections(1 + share)
      for _ in 0..<3 { #expect(try server.connect().restUndecrypted().isEmpty) }
      wait(for: "three notices") { server.recorder.shed.connections == 3 }
      #expect(server.connections == 1 + share)
      #expect(server.recorder.shed.requests == 0)
      withExtendedLifetime((clients, other)) {}
    }
  }

  @Test("no connection is reset if requests are in time, or the server shuts down", arguments: [false, true])
  func noResetConnections(isDraining: Bool) throws {
    let (server, other) = try Self.serverWithWaitingRequests(
      isBehind: true, lateWork: isDraining ? Self.overloaded.lateWork : .seconds(60), connections: 40)
    if isDraining { _ = server.workers { $0.drain(to: .draining) } }
    let clients = try (0..<20).map { _ in try server.connect() }
    server.waitForConnections(21)
    #expect(server.recorder.shed.connections == 0)
    withExtendedLifetime((clients, other)) {}
  }

  @Test(
    "a deprioritised connection stays so while the loop is behind and its address has many, or many requests wait",
    arguments: [(true, 0, 7, true), (true, 0, 6, false), (false, 0, 7, false), (false, 7, 1, true), (true, 7, 1, true)])
  func keptLast(isBehind: Bool, waiting: Int, connections: Int, isKept: Bool) throws {
    let (server, client) = try Self.serverWithWaitingRequests(isBehind: isBehind, count: waiting)
    let others = try (1..<connections).map { _ in try server.connect() }
    server.waitForConnections(connections)
    _ = server.workers { worker in for connection in worker.connections { connection.deprioritise() } }
    try client.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(try client.response()?.status == 200)
    let last = Array(repeating: Rank.last, count: connections)
    #expect(Self.ranks(on: server) == (isKept ? last : [.first] + last.dropLast()))
    withExtendedLifetime(others) {}
  }

  @Test("an address with few requests that wait is like all others, also if the loop is behind")
  func few() throws {
    let (server, other) = try Self.serverWithWaitingRequests(isBehind: true, count: 6)
    let client = try server.connect()
    server.waitForConnections(2)
    #expect(Self.ranks(on: server) == [.first, .first])
    withExtendedLifetime((client, other)) {}
  }

  @Test("the connections of a trusted proxy are never deprioritised, because they also have the requests of others")
  func proxy() throws {
    let (server, other) = try Self.serverWithWaitingRequests(isBehind: true, isTrusted: true)
    let proxy = try server.connect()
    server.waitForConnections(2)
    try proxy.send("GET /stored/x HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(try proxy.response()?.status == 200)
    #expect(Self.ranks(on: server) == [.first, .first])
    withExtendedLifetime(other) {}
  }

  /// Starts a server with a connection from an address of which more requests wait than a browser sends at once.
  private static func serverWithWaitingRequests(
    isBehind: Bool, isTrusted: Bool = false, lateWork: Duration = overloaded.lateWork, count: Int = 7,
    burst: Duration = .seconds(60), promptWork: Duration = .seconds(60), connections: Int = ServerLimits().connections
  ) throws -> (TestServer, RawClient) {
    var limits = limits(burst: burst, prompt: promptWork)
    limits.promptTurn = isBehind ? .milliseconds(-1) : .seconds(60)
    (limits.lateWork, limits.connections) = (lateWork, connections)
    let server = try TestServer(Variant.plain[0], limits: limits, router: router) { _ in isTrusted }
    let client = try server.connect()
    server.waitForConnections(1)
    _ = server.workers { worker in
      guard let connection = worker.connections.first else { return }
      // Nothing begins this work.
      for _ in 0..<count {
        worker.waiting[.request].add(connection, of: connection.peer.client.holder, at: worker.loop.now)
      }
    }
    return (server, client)
  }

  private static func ranks(on server: TestServer) -> [Rank] {
    server.workers { $0.connections.map(\.channel.rank) }.flatMap(\.self).sorted { $0.rawValue < $1.rawValue }
  }

  @Test("work that waits is done if it is prompt, or late in a burst", arguments: Variant.plain)
  func burst(_ variant: Variant) throws {
    for limits in [Self.limits(burst: .seconds(60), prompt: .milliseconds(-1)), Self.limits(burst: .zero)] {
      let server = try TestServer(variant, limits: limits, router: Self.router)
      #expect(try server.responses(to: "GET /tasks/x HTTP/1.0\r\n\r\n").map(\.text) == ["done"])
      #expect(server.recorder.shed.requests == 0)
    }
  }

  @Test("the notice of a refused request names its client, not the proxy in front")
  func client() throws {
    let server = try TestServer(Variant.plain[0], limits: Self.overloaded, router: Self.router) { _ in true }
    for field in ["Accept: */*", "X-Forwarded-For: 192.0.2.1"] {
      #expect(try server.responses(to: "GET /tasks/x HTTP/1.0\r\n\(field)\r\n\r\n").map(\.status) == [503])
    }
    #expect(server.recorder.shedClients == ["127.0.0.1", "192.0.2.1"])
  }

  private static func limits(burst: Duration, prompt: Duration = .seconds(60)) -> ServerLimits {
    var limits = overloaded
    (limits.burst, limits.promptWork) = (burst, prompt)
    return limits
  }

  @Test("a handshake that is late is refused with a reset, and counted", arguments: Variant.tls)
  func handshakes(_ variant: Variant) throws {
    let server = try TestServer(variant, limits: Self.overloaded)
    #expect(throws: TestFailure.self) { try server.connect() }
    wait(for: "the connection ends") { server.connections == 0 }
    #expect(server.recorder.shed.handshakes == 1)
    #expect(server.recorder.tlsFailures.isEmpty)
  }

  @Test("handshakes leave turns to requests: they take no more time than the rest of the turn", arguments: Variant.tls)
  func turns(_ variant: Variant) throws {
    var limits = ServerLimits()
    // No handshake is late, however long a busy machine takes for a hundred.
    (limits.burst, limits.promptWork, limits.lateWork) = (.seconds(3600), .seconds(3600), .seconds(3600))
    let server = try TestServer(variant, limits: limits)
    let clients = try (0..<100).map { _ in try RawClient(port: server.port) }
    server.waitForConnections(clients.count)
    var hello: [UInt8] = []
    try TLSSession(TLSClientContext(authorities: nil), host: "localhost", applicationProtocols: []).start(
      outgoing: &hello)
    let before = server.workers { $0.loop.turns }[0]
    let gate = Gate()
    server.occupy(until: gate)
    for client in clients { try client.send(hello) }
    gate.open()
    // The first bytes of the server's flight.
    for client in clients { #expect(try client.text(until: "\u{16}\u{3}\u{3}").count == 3) }
    // Without a queue, the loop does all of them in the turns in which it reads them.
    #expect(server.workers { $0.loop.turns }[0] - before > 10)
  }

  @Test("a connection that waits for its handshake holds no TLS session")
  func memory() throws {
    let server = try TestServer(Variant(poller: .epoll, isTLS: true))
    let clients = try (0..<3).map { _ in try RawClient(port: server.port) }
    server.waitForConnections(3) { $0.transport.tls == nil && $0.hold.bytes == Connection.Cost.connection }
    withExtendedLifetime(clients) {}
  }
}
