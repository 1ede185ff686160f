import EventLoop
import Glibc
import TLS
import TestSupport
import Testing

@testable import HTTPServer

/// Behaviour particular to connections over TLS.
@Suite struct TLSConnectionTests {
  private static let get = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"

  @Test("the server sends close_notify after its last response", arguments: Variant.tls)
  func closeNotify(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    try client.send("GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    #expect(try client.response()?.status == 200)
    #expect(try client.rest().isEmpty)
    #expect(client.wasClosedByTLS)
  }

  @Test("the server answers a client's close_notify with its own", arguments: Variant.tls)
  func clientCloses(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    try client.send(Self.get)
    #expect(try client.response()?.status == 200)
    client.finishSending()
    #expect(try client.rest().isEmpty)
    #expect(client.wasClosedByTLS)
  }

  @Test("the server sends close_notify to a connection that was idle for too long", arguments: Variant.tls)
  func idle(_ variant: Variant) throws {
    var limits = ServerLimits()
    limits.idle = .milliseconds(50)
    let server = try TestServer(variant, limits: limits)
    let client = try server.connect()
    #expect(try client.rest().isEmpty)
    #expect(client.wasClosedByTLS)
  }

  @Test(
    "plain HTTP on the TLS port gets a refusal in plain HTTP", arguments: Variant.tls, [0, 20_000])
  func plainHTTP(_ variant: Variant, contentLength: Int) throws {
    let server = try TestServer(variant)
    let client = try RawClient(port: server.port)
    let content = String(repeating: "a", count: contentLength)
    try client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: \(contentLength)\r\n\r\n" + content)
    let response = try #require(try client.response())
    #expect(response.status == 400)
    #expect(response.isLast)
    #expect(response.text.contains("https://"))
    #expect(try client.response() == nil)
    #expect(server.recorder.tlsFailures == [.plaintextHTTP])
  }

  @Test("the duration of a refusal is measured from the start of its connection", arguments: Variant.tls)
  func duration(_ variant: Variant) throws {
    let server = try TestServer(variant)
    #expect(try server.responses(to: "GET /hello HTTP/1.0\r\n\r\n").count == 1)
    let start = Deadline.now
    let client = try RawClient(port: server.port)
    try client.send("GET /hello HTTP/1.0\r\n\r\n")
    #expect(try client.response()?.status == 400)
    #expect(server.recorder.durations[1] <= Deadline.now.duration(since: start))
  }

  @Test("bytes that are neither TLS nor HTTP end the connection with an alert", arguments: Variant.tls)
  func garbage(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try RawClient(port: server.port)
    try client.send([0x16, 3, 1, 0, 4, 9, 9, 9, 9] + [UInt8](repeating: 0xff, count: 20_000))
    // A fatal alert: content type 21, level 2 (RFC 8446 §6).
    let response = try client.rest()
    #expect(response.first == 21)
    #expect(response.dropFirst(5).first == 2)
  }

  @Test("no response is ever sent unencrypted when the session fails", arguments: Variant.tls)
  func nothingInClear(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    // More than one read, so that responses are waiting when the next read receives a fatal alert of the client,
    // which gets no answer.
    let pad = String(repeating: "p", count: 7000)
    let released = Gate()
    server.occupy(until: released)
    for number in 0..<4 { try client.send("GET /echo?secret\(number) HTTP/1.1\r\nHost: a\r\nPad: \(pad)\r\n\r\n") }
    try client.sendFatalAlert()
    released.open()
    let received = try client.restUndecrypted()
    #expect(received.firstRange(of: Array("HTTP/1.1".utf8)) == nil)
    #expect(received.firstRange(of: Array("secret".utf8)) == nil)
  }

  @Test("openssl s_client resumes its session", .otherPrograms, arguments: Variant.tls)
  func resumption(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let directory = try TemporaryDirectory()
    let session = directory.path(of: "session.pem")
    let request = Array("GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".utf8)
    let common = ["s_client", "-connect", "127.0.0.1:\(server.port)", "-ign_eof"]
    let first = try run("openssl", common + ["-sess_out", session], input: request)
    #expect(first.stdout.contains("hello"))
    #expect(first.stdout.contains("New, TLSv1.3"))
    let second = try run("openssl", common + ["-sess_in", session], input: request)
    #expect(second.stdout.contains("hello"))
    #expect(second.stdout.contains("Reused, TLSv1.3"))
  }
}
