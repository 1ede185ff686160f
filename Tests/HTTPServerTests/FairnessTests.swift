import Glibc
import HTTPMessages
import HTTPTypes
import Locks
import TestSupport
import Testing

@testable import EventLoop
@testable import HTTPServer

/// Limits on what one peer can do to other peers or the system.
@Suite struct FairnessTests {
  @Test("a connection with many requests leaves turns to other connections", arguments: Variant.all)
  func turns(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let hog = try server.connect()
    let other = try server.connect()
    // The loop knows both, and both are idle.
    for client in [hog, other] {
      try client.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
      _ = try client.response()
    }
    let gate = Gate()
    server.occupy(until: gate)
    try hog.send(String(repeating: "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", count: 300))
    try other.send("GET /echo?me HTTP/1.1\r\nHost: a\r\n\r\n")
    gate.open()
    #expect(try other.response()?.status == 200)
    for _ in 0..<300 { #expect(try hog.response()?.status == 200) }
    let position = try #require(server.recorder.routes.firstIndex(of: "/echo"))
    #expect(position <= 2 + 64, "after one turn of the other at most")
  }

  @Test("the responses of one turn are sent together, those of sixteen connections at most", arguments: Variant.all)
  func together(_ variant: Variant) throws {
    let worker = Locked<Worker?>(nil)
    let counts = Locked<[Int]>([])
    let server = try TestServer(
      variant,
      router: Router([
        Route(
          "/unsent",
          [
            .get { _ in
              let count = worker.withLock { $0?.unsent.count ?? 0 }
              counts.withLock { $0.append(count) }
              return Response(.ok)
            }
          ])
      ]))
    _ = server.workers { present in worker.withLock { $0 = present } }
    let clients = try (0..<40).map { _ in try server.connect() }
    // The loop knows all of them, and all are idle.
    for client in clients {
      try client.send("GET /unsent HTTP/1.1\r\nHost: a\r\n\r\n")
      _ = try client.response()
    }
    let gate = Gate()
    server.occupy(until: gate)
    for client in clients { try client.send("GET /unsent HTTP/1.1\r\nHost: a\r\n\r\n") }
    gate.open()
    for client in clients { #expect(try client.response()?.status == 200) }
    #expect(counts.withLock { $0 }.dropFirst(40).elementsEqual((0..<40).map { $0 % Worker.mostUnsent }))
    worker.withLock { $0 = nil }
  }

  @Test("part of a TLS record does not move the deadline of an idle connection")
  func drippedRecord() throws {
    let server = try TestServer(Variant(poller: .epoll, isTLS: true))
    let client = try server.connect()
    try client.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
    _ = try client.response()
    let deadline = server.workers { $0.connections.first?.idleDeadline }
    #expect(deadline.first.flatMap { $0 } != nil)
    // The header of a record of 16 KiB, and a few bytes of the record.
    for byte in [0x17, 3, 3, 0x40, 0] + [UInt8](repeating: 0, count: 20) {
      let turn = server.workers { $0.loop.turns }
      try client.sendUnencrypted([byte])
      wait(for: "a turn of the loop") { server.workers { $0.loop.turns } != turn }
      #expect(server.workers { $0.connections.first?.idleDeadline } == deadline)
    }
  }

  @Test("an empty line after a request leaves the connection idle, so the connection closes without a response")
  func emptyLine() throws {
    var limits = ServerLimits()
    limits.idle = .milliseconds(100)
    limits.headerSection = .milliseconds(10)
    let server = try TestServer(Variant(poller: .epoll, isTLS: false), limits: limits)
    let responses = try server.responses(to: "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n\r\n")
    #expect(responses.map(\.status) == [200])
  }

  @Test("the kernel's send buffer and timeout are limited for a peer that does not read")
  func kernelMemory() throws {
    let server = try TestServer(Variant(poller: .epoll, isTLS: false), limits: ServerLimits())
    let client = try server.connect()
    server.waitForConnections(1)
    let options = server.workers { worker -> [Int32] in
      guard let raw = worker.connections.first?.channel.raw else { return [] }
      return [(SOL_SOCKET, SO_SNDBUF), (Int32(IPPROTO_TCP), TCP_USER_TIMEOUT)].map { level, option in
        var value: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        unsafe getsockopt(raw, level, option, &value, &size)
        return value
      }
    }
    // Linux doubles the requested size to include its own bookkeeping.
    #expect(options == [[131_072, 35_000]])
    withExtendedLifetime(client) {}
  }
}

extension Connection {
  /// The deadline of a connection without a request; nil in every other state.
  fileprivate var idleDeadline: Deadline? {
    if case .idle(let deadline) = state.phase { deadline } else { nil }
  }
}
