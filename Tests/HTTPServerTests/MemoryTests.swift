import Glibc
import HTTPTypes
import Memory
import TestSupport
import Testing

@testable import HTTPServer

/// What connections make the server hold, and what is refused beyond its budget.
@Suite struct MemoryTests {
  private static let get = "GET /large HTTP/1.1\r\nHost: a\r\n\r\n"

  @Test("slow readers of one response share its array", arguments: Variant.all)
  func sharedBody(_ variant: Variant) throws {
    let memory = MemoryBudget(limit: 1 << 30)
    let server = try TestServer(variant, memory: memory)
    let clients = try (0..<20).map { _ in try server.connect(receiveBuffer: 4096) }
    for client in clients { try client.send(Self.get) }
    server.waitForConnections(20) { !$0.body.isEmpty && $0.hold.bytes > Connection.Cost.sendBuffer }
    let held = server.workers { worker in
      worker.connections.values.map { $0.input.capacity + $0.output.capacity + $0.outgoing.capacity }
    }
    // Ciphertext of two records at most, in a buffer that has doubled.
    #expect(held.joined().allSatisfy { $0 <= (variant.isTLS ? 66_000 : 1024) })
    #expect(memory.used < Router.large.count + 20 * 300_000)
    for client in clients { #expect(try client.response()?.body.count == Router.large.count) }
    server.waitForConnections(20) { $0.isResting && $0.body.isEmpty }
    #expect(memory.used <= 20 * (Connection.Cost.connection + (variant.isTLS ? Connection.Cost.session : 0)))
  }

  @Test("a response that is shared arrives whole, between short ones", arguments: Variant.all)
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

  @Test("content that is not complete is waited for without a task", arguments: Variant.plain)
  func incompleteContent(_ variant: Variant) throws {
    let memory = MemoryBudget(limit: 1 << 30)
    let server = try TestServer(variant, memory: memory)
    let clients = try (0..<100).map { _ in try server.connect() }
    for path in ["/echo", "/nowhere"] {
      for client in clients { try client.send("POST \(path) HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nagai") }
      server.waitForConnections(100) { $0.isResting && $0.pendingContent != nil && $0.task == nil }
      let held = server.workers { worker in
        worker.connections.values.map { $0.input.capacity + $0.output.capacity + ($0.request?.heldBytes ?? 0) }
      }
      #expect(held.joined().allSatisfy { $0 < 1024 })
      #expect(memory.used <= 100 * (Connection.Cost.connection + Connection.Cost.request + 1024))
      for client in clients { try client.send("n") }
      for client in clients { #expect(try client.response()?.status == (path == "/echo" ? 200 : 404)) }
    }
    server.waitForConnections(100) { $0.isResting && $0.request == nil }
    #expect(memory.used == 100 * Connection.Cost.connection)
  }

  @Test(
    "beyond the budget content is refused with 503, and what the server has no need to hold goes on",
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
      let end = ContinuousClock.now.advanced(by: .seconds(60))
      while memory.refusals(for: .request) == refused, ContinuousClock.now < end {
        let waiting = server.workers { $0.connections.values.count { $0.request?.body.count == 20_000 } }
        if waiting == [clients.count] { break }
        sched_yield()
      }
      // The one that came last tells; those before it wait.
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
    // What was granted stays good, and there is room again.
    clients.removeSubrange(1...)
    let end = ContinuousClock.now.advanced(by: .seconds(60))
    while memory.used > 100_000, ContinuousClock.now < end { sched_yield() }
    try clients[0].send(String(repeating: "a", count: 10_000))
    #expect(try clients[0].response()?.status == 200)
  }

  @Test("beyond the budget a long response is refused with 503, a short one is not", arguments: Variant.all)
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

  @Test("beyond the budget a connection that does not read is reset", arguments: Variant.all)
  func refusedReader(_ variant: Variant) throws {
    // One response, and one reader of it who is slow.
    let memory = MemoryBudget(limit: 12_000_000)
    let filler = MemoryHold(memory, for: nil)
    let server = try TestServer(variant, memory: memory)
    let clients = try (0..<2).map { _ in try server.connect(receiveBuffer: 4096) }
    try clients[0].send(Self.get)
    server.waitForConnections(2) { !$0.body.isEmpty || $0.request == nil }
    server.waitForConnections(1) { $0.hold.bytes > Connection.Cost.sendBuffer }
    #expect(filler.resize(to: memory.limit - memory.reserve - memory.used - 100_000, for: .upstream))
    try clients[1].send(Self.get)
    server.waitForConnections(1)
    #expect(memory.refusals(for: .response) == 1)
    #expect(try clients[0].response()?.body.count == Router.large.count)
  }

  @Test("beyond the budget a request that waits is refused with 503", arguments: Variant.plain)
  func refusedWork(_ variant: Variant) throws {
    let memory = MemoryBudget(limit: 1_000_000)
    let filler = MemoryHold(memory, for: nil)
    let router = Router([
      Route("/wait", [.get(reply: { _ in .later { _ in Response(.ok, body: Array("done".utf8)) } })])
    ])
    let server = try TestServer(variant, router: router, memory: memory)
    let client = try server.connect()
    let request = "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"
    try client.send(request)
    #expect(try client.response()?.text == "done")
    server.waitForConnections(1) { $0.isResting && $0.request == nil }
    // Enough for a connection, not for what waits.
    filler.force(to: memory.limit - memory.used - 10_000)
    let second = try server.connect()
    try second.send(request)
    #expect(try second.response()?.status == 503)
    filler.force(to: 0)
    let third = try server.connect()
    try third.send(request)
    #expect(try third.response()?.text == "done")
  }

  @Test("beyond the whole budget connections are turned away", arguments: Variant.plain)
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
