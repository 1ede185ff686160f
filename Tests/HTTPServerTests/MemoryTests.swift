import Dispatch
import EventLoop
import Glibc
import HTTP1
import HTTPMessages
import HTTPTypes
import Memory
import TestSupport
import Testing

@testable import HTTPServer

/// The memory of connections, and what the server refuses beyond its budget.
@Suite struct MemoryTests {
  private static let get = "GET /large HTTP/1.1\r\nHost: a\r\n\r\n"

  @Test("slow readers of one response share its array", arguments: Variant.all)
  func sharedBody(_ variant: Variant) throws {
    let memory = MemoryBudget(limit: 1 << 30)
    let server = try TestServer(variant, memory: memory)
    let clients = try (0..<6).map { _ in try server.connect(receiveBuffer: 4096) }
    for client in clients { try client.send(Self.get) }
    server.waitForConnections(6) { !$0.transport.body.isEmpty && $0.hold.bytes > Connection.Cost.sendBuffer }
    let held = server.workers { worker in
      worker.connections.map {
        $0.transport.input.capacity + $0.transport.output.capacity + $0.transport.outgoing.capacity
      }
    }
    // Ciphertext of at most two records, in a buffer that has doubled.
    #expect(held.joined().allSatisfy { $0 <= (variant.isTLS ? 66_000 : 1024) })
    #expect(memory.used < Router.large.count + 6 * 300_000)
    for client in clients { #expect(try client.response()?.body.count == Router.large.count) }
    server.waitForConnections(6) { $0.state.occupation == .resting && $0.transport.body.isEmpty }
    #expect(memory.used <= 6 * (Connection.Cost.connection + (variant.isTLS ? 16_384 : 0)))
  }

  @Test("a shared response arrives complete between short responses", arguments: Variant.all)
  func pipelined(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    let short = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
    let post = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nagain"
    let unread = "POST /large HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nagain"
    try client.send(short + Self.get + short + Self.get + Self.get + post + Self.get + unread + short)
    for text in ["hello", nil, "hello", nil, nil, "again", nil] {
      let response = try client.response()
      if let text { #expect(response?.text == text) } else { #expect(response?.body == Router.large) }
    }
    #expect(try client.response()?.status == 405)
    #expect(try client.response()?.text == "hello")
  }

  @Test("the server waits for incomplete content without a task", arguments: Variant.plain)
  func incompleteContent(_ variant: Variant) throws {
    let memory = MemoryBudget(limit: 1 << 30)
    let server = try TestServer(variant, memory: memory)
    let clients = try (0..<100).map { _ in try server.connect() }
    for path in ["/echo", "/nowhere"] {
      for client in clients { try client.send("POST \(path) HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nagai") }
      server.waitForConnections(100) { $0.state.occupation == .resting && $0.content != nil && $0.activity.isNone }
      let held = server.workers { worker in
        worker.connections.map {
          $0.transport.input.capacity + $0.transport.output.capacity + ($0.request?.heldBytes ?? 0)
        }
      }
      #expect(held.joined().allSatisfy { $0 < 1024 })
      #expect(memory.used <= 100 * (Connection.Cost.connection + Connection.Cost.request + 1024))
      for client in clients { try client.send("n") }
      for client in clients { #expect(try client.response()?.status == (path == "/echo" ? 200 : 404)) }
    }
    server.waitForConnections(100) { $0.state.occupation == .resting && $0.request == nil }
    #expect(memory.used == 100 * Connection.Cost.connection)
  }

  @Test(
    "over the budget, content gets 503, and requests that need no memory are answered",
    arguments: Variant.plain)
  func refusedContent(_ variant: Variant) throws {
    let memory = MemoryBudget(limit: 400_000)
    let server = try TestServer(variant, memory: memory)
    let content = String(repeating: "a", count: 20_000)
    var refused = 0
    var clients: [RawClient] = []
    for _ in 0..<20 {
      let client = try server.connect()
      try client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 30000\r\n\r\n" + content)
      clients.append(client)
      wait(for: "the refusal of a request, or its content") {
        let waiting = server.workers { $0.connections.count { $0.content?.received.count == 20_000 } }
        return memory.refusals(for: .request) > refused || waiting == [clients.count]
      }
      // The last request is refused; the earlier requests wait.
      if memory.refusals(for: .request) > refused {
        refused += 1
        let response = try #require(try client.response())
        #expect(response.status == 503)
        #expect(response["retry-after"] == "1")
        #expect(response.isLast)
        try expectError(response, code: "overloaded")
        clients.removeLast()
      }
      if refused > 3 { break }
    }
    #expect(refused > 3)
    #expect(memory.used < 400_000)
    let other = try server.connect()
    for _ in 0..<10 {
      try other.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
      #expect(try other.response()?.status == 200)
    }
    // Granted memory stays granted, and there is room again.
    clients.removeSubrange(1...)
    wait(for: "the release of the memory") { memory.used <= 100_000 }
    try clients[0].send(String(repeating: "a", count: 10_000))
    #expect(try clients[0].response()?.status == 200)
  }

  @Test("over the budget, a long response gets 503 and a short response does not", arguments: Variant.all)
  func refusedResponse(_ variant: Variant) throws {
    let server = try TestServer(variant, memory: MemoryBudget(limit: 1_000_000))
    let client = try server.connect()
    try client.send(Self.get)
    let response = try #require(try client.response())
    #expect(response.status == 503)
    try expectError(response, code: "overloaded")
    let other = try server.connect()
    try other.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(try other.response()?.status == 200)
  }

  @Test("over the budget, the connection of a second slow reader is reset", arguments: Variant.all)
  func refusedReader(_ variant: Variant) throws {
    // Memory for one response and one slow reader of it.
    let memory = MemoryBudget(limit: 12_000_000)
    let filler = MemoryHold(memory, for: nil)
    let server = try TestServer(variant, memory: memory)
    let clients = try (0..<2).map { _ in try server.connect(receiveBuffer: 4096) }
    try clients[0].send(Self.get)
    server.waitForConnections(2) { !$0.transport.body.isEmpty || $0.request == nil }
    server.waitForConnections(1) { $0.hold.bytes > Connection.Cost.sendBuffer }
    #expect(filler.resize(to: memory.limit - memory.reserve - memory.used - 100_000, for: .upstream))
    try clients[1].send(Self.get)
    server.waitForConnections(1)
    #expect(memory.refusals(for: .response) == 1)
    #expect(try clients[0].response()?.body.count == Router.large.count)
  }

  @Test("over the budget, a deferred request gets 503", arguments: Variant.plain)
  func refusedWork(_ variant: Variant) throws {
    let memory = MemoryBudget(limit: 1_000_000)
    let filler = MemoryHold(memory, for: nil)
    let router = Router([
      Route("/wait", [.get(reply: { _ in .deferred(DeferredWork { _ in Response(.ok, body: Array("done".utf8)) }) })])
    ])
    let server = try TestServer(variant, router: router, memory: memory)
    let client = try server.connect()
    let request = "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"
    try client.send(request)
    #expect(try client.response()?.text == "done")
    server.waitForConnections(1) { $0.state.occupation == .resting && $0.request == nil }
    // Enough for a connection, but not for a deferred request.
    filler.force(to: memory.limit - memory.used - 10_000)
    let second = try server.connect()
    try second.send(request)
    #expect(try second.response()?.status == 503)
    filler.force(to: 0)
    let third = try server.connect()
    try third.send(request)
    #expect(try third.response()?.text == "done")
  }

  // MARK: Charges

  /// Longer than anything else that a test counts.
  private static let padding = String(repeating: "p", count: 15_000)
  private static let origin = "https://app.example.com"

  /// A request with a head of 30 kB.
  private static func long(_ line: String, _ fields: String = "", _ content: String = "") -> String {
    "\(line) HTTP/1.1\r\nHost: a\r\nX-A: \(padding)\r\nOrigin: \(origin)\r\nX-B: \(padding)\r\n\(fields)\r\n\(content)"
  }

  /// `/wait` responds after a signal of `go`, `/content` after its content and `go`; each response has the origin.
  private static func router(_ begun: Signal<Void>, _ go: Signal<Void>) -> Router {
    let respond: @Sendable (RequestContext) async -> Response = { context in
      begun.send(())
      let value: Void? = await go.next()
      return Response(value == nil ? .internalServerError : .ok, body: Array("done".utf8))
    }
    return Router(
      [
        Route("/hello", [.get { _ in Response(.ok, body: Array("hello".utf8)) }]),
        Route("/wait", [.get(reply: { _ in .deferred(DeferredWork(perform: respond)) })]),
        Route("/content", [.post(bodyLimit: 100) { _ in .read { _ in .deferred(DeferredWork(perform: respond)) } }]),
        Route(below: "/upload/") { _ in
          .deferred(
            DeferredWork { context in
              while let part = try? await context.content?.read(), !part.isEmpty {}
              return await respond(context)
            })
        },
      ], lastingField: "origin",
      finish: { response, request in
        guard case .single(let value) = request.field("origin") else { return }
        response.fields[.accessControlAllowOrigin] = String(decoding: value, as: UTF8.self)
      })
  }

  /// Whether every connection is charged at least the bytes it holds.
  private static func isCharged(_ server: TestServer) -> Bool {
    server.workers { $0.connections.allSatisfy { $0.hold.bytes >= $0.heldBytes } }.allSatisfy(\.self)
  }

  @Test("a request that waits for work or content does not keep its head", arguments: Variant.all)
  func forgottenHead(_ variant: Variant) throws {
    let (begun, go) = (Signal<Void>(), Signal<Void>())
    let server = try TestServer(variant, router: Self.router(begun, go))
    let client = try server.connect()
    for isContent in [false, true] {
      let content = "Content-Length: 5\r\n"
      try client.send(isContent ? Self.long("POST /content", content, "hell") : Self.long("GET /wait"))
      if isContent {
        server.waitForConnections(1) { $0.state.occupation == .resting && $0.content != nil }
      } else {
        try begun.wait()
        server.waitForConnections(1) { $0.state.isWorking }
      }
      let kept = server.workers { $0.connections.map { $0.request.map { $0.heldBytes } } }
      // The fields that the handler may keep are charged, but the head itself is freed.
      #expect(kept.joined().allSatisfy { ($0 ?? 0) > 30_000 && ($0 ?? 0) < 31_000 })
      #expect(Self.isCharged(server))
      if isContent {
        try client.send("o")
        try begun.wait()
      }
      go.send(())
      let response = try #require(try client.response())
      #expect(response.text == "done")
      #expect(response["access-control-allow-origin"] == Self.origin)
    }
  }

  @Test("content that was read is charged as long as it is held", arguments: Variant.all)
  func uploaded(_ variant: Variant) throws {
    let (begun, go) = (Signal<Void>(), Signal<Void>())
    let server = try TestServer(variant, router: Self.router(begun, go))
    let client = try server.connect()
    try client.send(Self.long("POST /upload/", "Content-Length: 14000\r\n", String(Self.padding.prefix(14_000))))
    try begun.wait()
    server.waitForConnections(1) { $0.state.isWorking && $0.transport.input.capacity < 1024 }
    #expect(Self.isCharged(server))
    go.send(())
    #expect(try client.response()?.status == 200)
  }

  @Test("HTTP/2 requests are charged while they wait", .otherPrograms)
  func waitingStreams() throws {
    let (begun, go) = (Signal<Void>(), Signal<Void>())
    let server = try TestServer(
      Variant(poller: .epoll, isTLS: false), router: Self.router(begun, go), speaksHTTP2: true)
    let output = Signal<Result<String, any Error>>()
    // On its own thread, because this test blocks one of the few threads that tasks have.
    DispatchQueue(label: "curl").async {
      output.send(
        Result {
          try run(
            "curl",
            [
              "--silent", "--http2-prior-knowledge", "--max-time", "60", "-H", "X-A: \(Self.padding)",
              "http://127.0.0.1:\(server.port)/wait",
            ]
          ).stdout
        })
    }
    try begun.wait()
    server.waitForConnections(1) {
      $0.state.occupation == .resting && $0.hold.bytes > Connection.Cost.http2 + Self.padding.count
    }
    #expect(Self.isCharged(server))
    go.send(())
    #expect(try output.wait().get() == "done")
  }

  @Test("a refused connection that its client leaves open keeps neither request nor task", arguments: Variant.all)
  func lingering(_ variant: Variant) throws {
    let memory = MemoryBudget(limit: 1 << 30)
    let server = try TestServer(variant, memory: memory)
    let clients = try (0..<20).map { _ in try server.connect() }
    for (index, client) in clients.enumerated() {
      let isMalformed = index % 2 == 0
      try client.send(
        isMalformed
          ? Self.long("POST /echo", "Transfer-Encoding: chunked\r\n", "zz\r\n")
          : Self.long("POST /hello", "Content-Length: 70000\r\n", "a"))
      #expect(try client.response()?.status == (isMalformed ? 400 : 405))
    }
    server.waitForConnections(20) {
      guard case .lingering = $0.state.phase else { return false }
      return $0.state.occupation == .resting && $0.request == nil && $0.activity.isNone
    }
    #expect(memory.used == 20 * Connection.Cost.connection)
  }

  @Test("a request refused for lack of memory keeps no memory", arguments: Variant.plain)
  func refusedWaiting(_ variant: Variant) throws {
    let memory = MemoryBudget(limit: 1_000_000)
    let (begun, go) = (Signal<Void>(), Signal<Void>())
    let server = try TestServer(variant, router: Self.router(begun, go), memory: memory)
    let filler = MemoryHold(memory, for: nil)
    // Enough for a connection and a head, but not for a deferred request.
    filler.force(to: memory.limit - memory.reserve / 2 - 25_000)
    let clients = try (0..<4).map { _ in try server.connect() }
    for client in clients {
      let padding = Self.padding.prefix(10_000)
      try client.send("GET /wait HTTP/1.1\r\nHost: a\r\nOrigin: \(Self.origin)\r\nX-A: \(padding)\r\n\r\n")
      let response = try #require(try client.response())
      #expect(response.status == 503)
      #expect(response.isLast)
      #expect(response["access-control-allow-origin"] == Self.origin)
    }
    // The clients have not closed.
    server.waitForConnections(0)
    #expect(memory.used == filler.bytes)
  }

  @Test("many greedy addresses leave room for other addresses", arguments: Variant.plain)
  func manyGreedyAddresses(_ variant: Variant) throws {
    let memory = MemoryBudget(limit: 4_000_000)
    let (begun, go) = (Signal<Void>(), Signal<Void>())
    let server = try TestServer(variant, router: Self.router(begun, go), memory: memory) { _ in true }
    func ask(_ address: Int) throws -> (RawClient, isRefused: Bool) {
      let client = try server.connect()
      let refusals = memory.refusals
      try client.send("GET /wait HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.\(address)\r\n\r\n")
      var waits = false
      try eventually("the request waits or is refused") {
        waits = server.workers { $0.connections.count { $0.state.isWorking } } == [waiting + 1]
        return waits || memory.refusals != refusals
      }
      return (client, !waits)
    }
    var clients: [RawClient] = []
    var waiting = 0
    for address in 1...12 {
      while true {
        let (client, isRefused) = try ask(address)
        if isRefused { break }
        waiting += 1
        clients.append(client)
      }
    }
    // A dozen addresses have as much as they can get.
    #expect(waiting > 60)
    #expect(memory.used > memory.limit / 2)
    for address in 101...110 {
      let client = try server.connect()
      try client.send("GET /hello HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.\(address)\r\n\r\n")
      #expect(try client.response()?.text == "hello")
      clients.append(client)
    }
    #expect(try ask(1).isRefused)
  }

  @Test("over the whole budget, new connections are refused", arguments: Variant.plain)
  func refusedConnection(_ variant: Variant) throws {
    let memory = MemoryBudget(limit: 1_000_000)
    let filler = MemoryHold(memory, for: nil)
    let server = try TestServer(variant, memory: memory)
    filler.force(to: memory.limit)
    let refusal = try #require(try server.connect().response())
    #expect(refusal.status == 503)
    try expectError(refusal, code: "overloaded")
    filler.force(to: memory.limit / 2)
    let client = try server.connect()
    try client.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(try client.response()?.status == 200)
    #expect(memory.refusals(for: .connection) == 1)
  }
}

extension MemoryBudget {
  fileprivate var refusals: Int { Purpose.allCases.map { refusals(for: $0) }.reduce(0, +) }
}
