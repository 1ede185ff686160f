import EventLoop
import Glibc
import HTTP1
import TestSupport
import Testing

@testable import HTTPServer

/// Every wait ends. The deadlines are short, and the tests check the server's response to them.
@Suite struct DeadlineTests {
  private static func limits(_ change: (inout ServerLimits) -> Void) -> ServerLimits {
    var limits = ServerLimits()
    limits.linger = .milliseconds(20)
    change(&limits)
    return limits
  }

  @Test("an incomplete header section is refused after its deadline", arguments: Variant.all)
  func header(_ variant: Variant) throws {
    let server = try TestServer(variant, limits: Self.limits { $0.headerSection = .milliseconds(50) })
    let responses = try server.responses(to: "GET /hello HTTP/1.1\r\nHost: a\r\n")
    #expect(responses.map(\.status) == [408])
    #expect(responses.first?.isLast == true)
    if let response = responses.first { try expectError(response, code: "request_timeout") }
  }

  @Test("the deadline of a header section does not move with each byte", arguments: Variant.all)
  func drip(_ variant: Variant) throws {
    let limits = Self.limits {
      $0.headerSection = .milliseconds(100)
      $0.http1.headerSection = .max / 2
    }
    let server = try TestServer(variant, limits: limits)
    let client = try server.connect()
    try client.send("GET /hello HTTP/1.1\r\nHost: a\r\nA: ")
    wait(for: "the refusal of a head that drips") {
      try? client.send("b")
      return !server.recorder.statuses.isEmpty
    }
    #expect(server.recorder.statuses == [408])
  }

  @Test("content without progress is refused", arguments: Variant.all)
  func body(_ variant: Variant) throws {
    let server = try TestServer(variant, limits: Self.limits { $0.bodyProgress = .milliseconds(50) })
    let responses = try server.responses(to: "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe")
    #expect(responses.map(\.status) == [408])
    #expect(server.recorder.routes == ["/echo"])
  }

  @Test("slow content is refused after its deadline", arguments: Variant.all)
  func bodyDrip(_ variant: Variant) throws {
    let server = try TestServer(variant, limits: Self.limits { $0.body = .milliseconds(100) })
    let client = try server.connect()
    try client.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    wait(for: "the refusal of content that drips") {
      try? client.send("1\r\na\r\n")
      return !server.recorder.statuses.isEmpty
    }
    #expect([408, 413].contains(server.recorder.statuses[0]))
  }

  @Test("unread content without progress ends the connection after the response", arguments: Variant.all)
  func unreadBody(_ variant: Variant) throws {
    let server = try TestServer(variant, limits: Self.limits { $0.bodyProgress = .milliseconds(50) })
    let responses = try server.responses(to: "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe")
    #expect(responses.map(\.status) == [405])
  }

  @Test("the server closes the connection of a client that never reads", arguments: Variant.all)
  func writing(_ variant: Variant) throws {
    let server = try TestServer(variant, limits: Self.limits { $0.writeProgress = .milliseconds(50) })
    let client = try server.connect(receiveBuffer: 4096)
    try client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
    wait(for: "the record of the response") { !server.recorder.statuses.isEmpty }
    server.waitForConnections(0)
    let received = try client.restUndecrypted()
    #expect(received.count < Router.large.count)
  }

  @Test(
    "the kernel's timeout for unacknowledged data is five seconds longer than the server's write deadline",
    arguments: [1, 30, 3600])
  func userTimeout(seconds: Int) throws {
    let limits = Self.limits { $0.writeProgress = .seconds(seconds) }
    let server = try TestServer(try #require(Variant.plain.first), limits: limits)
    let client = try server.connect()
    server.waitForConnections(1)
    let milliseconds = server.workers { worker in
      worker.connections.map { connection in
        var value: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        _ = unsafe getsockopt(connection.channel.raw, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &value, &length)
        return value
      }
    }
    #expect(milliseconds == [[Int32(seconds + 5) * 1000]])
    client.finishSending()
  }

  @Test("an idle connection closes without a response", arguments: Variant.all)
  func idle(_ variant: Variant) throws {
    let server = try TestServer(variant, limits: Self.limits { $0.idle = .milliseconds(50) })
    let fresh = try server.connect()
    #expect(try fresh.rest().isEmpty)
    let used = try server.connect()
    try used.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(try used.response()?.isLast == false)
    #expect(try used.rest().isEmpty)
    #expect(server.recorder.statuses == [200])
  }

  @Test("the server closes an incomplete TLS handshake with an alert", arguments: Variant.tls, [0, 1, 100])
  func handshake(_ variant: Variant, count: Int) throws {
    let server = try TestServer(variant, limits: Self.limits { $0.tlsHandshake = .milliseconds(50) })
    let client = try RawClient(port: server.port)
    // The beginning of a ClientHello of 512 bytes.
    try client.send(Array(([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3] + [UInt8](repeating: 7, count: 100)).prefix(count)))
    let received = try client.restUndecrypted()
    // A fatal user_canceled (RFC 8446 §6.1). Bytes that a slow machine sends too late cause a reset, which overtakes
    // the alert.
    #expect(received == [21, 3, 3, 0, 2, 2, 90] || (received.isEmpty && count > 0))
    server.waitForConnections(0)
  }

  @Test("the server closes the connection of a client that continues to send after a refusal", arguments: Variant.all)
  func linger(_ variant: Variant) throws {
    var limits = ServerLimits()
    limits.lingerBytes = 100_000
    limits.linger = .seconds(1000)
    let server = try TestServer(variant, limits: limits)
    let client = try server.connect()
    try client.send("GET / HTTP/1.1\nHost: a\r\n\r\n")
    #expect(try client.response()?.status == 400)
    let more = [UInt8](repeating: 0x61, count: 10_000)
    wait(for: "the end of a connection whose client sends on") {
      try? client.sendUnencrypted(more)
      return server.connections == 0
    }
  }
}
