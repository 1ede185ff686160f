import EventLoop
import HTTPMessages
import HTTPTypes
import TestSupport
import Testing

@testable import HTTPServer

/// The number of connections, and the memory of each.
@Suite struct CapacityTests {
  private static let get = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"

  @Test(
    "a connection beyond a limit gets 503, and another succeeds after a connection has closed",
    arguments: Variant.plain,
    ["in all", "per address"])
  func overload(_ variant: Variant, limit: String) throws {
    var limits = ServerLimits()
    if limit == "in all" { limits.connections = 2 } else { limits.connectionsPerAddress = 2 }
    let server = try TestServer(variant, limits: limits)
    let first = try server.connect()
    let second = try server.connect()
    for client in [first, second] {
      try client.send(Self.get)
      #expect(try client.response()?.status == 200)
    }
    let third = try server.connect()
    let refusal = try #require(try third.response())
    #expect(refusal.status == 503)
    #expect(refusal.isLast)
    #expect(refusal["retry-after"] == "1")
    try expectError(refusal, code: "overloaded")

    first.finishSending()
    #expect(try first.rest().isEmpty)
    server.waitForConnections(1)
    let fourth = try server.connect()
    try fourth.send(Self.get)
    #expect(try fourth.response()?.status == 200)
    try second.send(Self.get)
    #expect(try second.response()?.status == 200)
  }

  @Test("over TLS, the server closes a connection beyond the limit", arguments: Variant.tls)
  func overloadTLS(_ variant: Variant) throws {
    var limits = ServerLimits()
    limits.connections = 1
    let server = try TestServer(variant, limits: limits)
    let first = try server.connect()
    #expect(throws: TestFailure.self) { try server.connect() }
    try first.send(Self.get)
    #expect(try first.response()?.status == 200)
  }

  @Test("a trusted proxy is exempt from the limit per address but not from the total limit", arguments: Variant.plain)
  func trusted(_ variant: Variant) throws {
    var limits = ServerLimits()
    limits.connectionsPerAddress = 1
    limits.connections = 3
    let server = try TestServer(variant, limits: limits, trusts: { $0.isLoopback })
    let clients = try (0..<4).map { _ in try server.connect() }
    for (index, client) in clients.enumerated() {
      if index < 3 { try client.send(Self.get) }
      #expect(try client.response()?.status == (index < 3 ? 200 : 503))
    }
  }

  @Test("a thousand incomplete heads hold little more than their bytes", arguments: Variant.plain)
  func halfHeads(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let half = "GET /hello HTTP/1.1\r\nHost: a\r\nA: "
    var clients: [RawClient] = []
    for _ in 0..<1000 {
      let client = try server.connect()
      try client.send(half)
      clients.append(client)
    }
    server.waitForConnections(1000) { $0.transport.input.count == half.utf8.count }
    let held = server.workers { worker in
      worker.connections.map {
        $0.transport.input.capacity + $0.transport.output.capacity + $0.transport.outgoing.capacity
      }
    }
    #expect(held.joined().allSatisfy { $0 <= 2 * half.utf8.count })
    for client in clients { try client.send("b\r\n\r\n") }
    for client in clients { #expect(try client.response()?.status == 200) }
    let idle = server.workers { worker in
      worker.connections.map { connection in
        connection.request == nil
          ? connection.transport.input.capacity + connection.transport.output.capacity
            + connection.transport.outgoing.capacity : .max
      }
    }
    #expect(idle.joined().allSatisfy { $0 == 0 })
  }

  @Test("the responses to a client that never reads are held once", arguments: Variant.plain)
  func neverReads(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect(receiveBuffer: 4096)
    for _ in 0..<100 { try client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n") }
    server.waitForConnections(1) { $0.transport.isPending }
    let held = server.workers { worker in
      worker.connections.map {
        $0.transport.input.capacity + $0.transport.output.capacity + $0.transport.outgoing.capacity
      }
    }
    #expect(held.joined().allSatisfy { $0 < 2 * Router.large.count })
  }

  @Test("a new router answers the requests that begin after the replacement", arguments: Variant.all)
  func replacedRouter(_ variant: Variant) throws {
    let server = try TestServer(variant, loops: 2)
    let clients = try (0..<8).map { _ in try server.connect() }
    for generation in 0..<50 {
      let router = Router([Route("/hello", [.get { _ in Response(.ok, body: Array("\(generation)".utf8)) }])])
      for client in clients { try client.send(Self.get) }
      server.server.replace(router: router, tls: variant.isTLS ? try .shared.get() : nil)
      for client in clients {
        let text = try #require(try client.response()?.text)
        #expect([generation == 0 ? "hello" : "\(generation - 1)", "\(generation)"].contains(text))
      }
      // After an action posted behind the replacement, the old router answers no request.
      _ = server.workers { _ in () }
      for client in clients { try client.send(Self.get) }
      for client in clients { #expect(try client.response()?.text == "\(generation)") }
    }
  }
}
