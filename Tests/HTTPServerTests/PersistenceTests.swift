import Glibc
import TestSupport
import Testing

@testable import HTTPServer

/// The order of responses, and the persistence of connections (RFC 9112 §9).
@Suite struct PersistenceTests {
  private static let get = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"

  @Test("a connection stays open for several requests", arguments: Variant.all)
  func keepAlive(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    for _ in 0..<5 {
      try client.send(Self.get)
      let response = try #require(try client.response())
      #expect(response.statusLine == "HTTP/1.1 200 OK")
      #expect(response.text == "hello")
      #expect(!response.isLast)
    }
  }

  @Test("a hundred pipelined requests get a hundred responses in order", arguments: Variant.all)
  func pipelining(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    try client.send((0..<100).map { "GET /echo?\($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined())
    for number in 0..<100 { #expect(try client.response()?.text == "\(number)") }
  }

  @Test("pipelined requests that fill many buffers are all answered", arguments: Variant.all)
  func longPipeline(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    let pad = String(repeating: "p", count: 1000)
    try client.send((0..<300).map { "GET /echo?\($0) HTTP/1.1\r\nHost: a\r\nPad: \(pad)\r\n\r\n" }.joined())
    for number in 0..<300 { #expect(try client.response()?.text == "\(number)") }
  }

  @Test("a request split at any byte gets the same response", arguments: Variant.all)
  func everySplit(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    let bytes = Array("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".utf8)
    for cut in 1..<bytes.count {
      try client.send(Array(bytes[..<cut]))
      try client.send(Array(bytes[cut...]))
      #expect(try client.response()?.text == "abc", "cut at \(cut)")
    }
  }

  @Test("a request that arrives byte by byte is answered", arguments: Variant.all)
  func byteByByte(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    for byte in Self.get.utf8 { try client.send([byte]) }
    #expect(try client.response()?.text == "hello")
  }

  @Test(
    "malformed content that no operation reads is refused if it has arrived", arguments: Variant.all,
    ["GET /hello", "POST /hello", "GET /nothing", "DELETE /echo"])
  func malformedContent(_ variant: Variant, _ request: String) throws {
    let server = try TestServer(variant)
    for content in ["ZZ\r\n", "3\r\nabcd\r\n0\r\n\r\n", "1\r\na\r\n-1\r\n"] {
      let responses = try server.responses(
        to: "\(request) HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\(content)\(Self.get)")
      #expect(responses.map(\.status) == [400], "\(content)")
      #expect(responses.map(\.isLast) == [true], "\(content)")
    }
  }

  @Test(
    "a response before the end of chunked content announces the close", arguments: Variant.all)
  func partialContent(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    try client.send("GET /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab")
    let response = try #require(try client.response())
    #expect(response.status == 200)
    #expect(response.isLast)
    try client.send("c\r\n0\r\n\r\n" + Self.get)
    #expect(try client.response() == nil)
  }

  @Test("complete content does not end the connection", arguments: Variant.all)
  func wholeContent(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    let chunked = "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    for framing in [chunked, "Content-Length: 3\r\n\r\nabc"] {
      try client.send("GET /hello HTTP/1.1\r\nHost: a\r\n\(framing)")
      let response = try #require(try client.response())
      #expect(response.status == 200)
      #expect(!response.isLast, "\(framing)")
    }
  }

  @Test("a client that has finished sending still gets its responses", arguments: Variant.all)
  func halfClose(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    try client.send(Self.get + Self.get)
    client.finishSending()
    #expect(try client.response()?.text == "hello")
    #expect(try client.response()?.text == "hello")
    #expect(try client.response() == nil)
  }

  @Test("the connection closes after a request with Connection: close", arguments: Variant.all)
  func closing(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let last = "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    let responses = try server.responses(to: last + Self.get)
    #expect(responses.map(\.status) == [200])
    #expect(responses.last?.isLast == true)
  }

  @Test("an HTTP/1.0 connection closes unless the client requests keep-alive", arguments: Variant.all)
  func version10(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let responses = try server.responses(to: "GET /hello HTTP/1.0\r\n\r\n")
    #expect(responses.map(\.text) == ["hello"])
    #expect(responses.first?.isLast == true)

    let client = try server.connect()
    for _ in 0..<2 {
      try client.send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
      let response = try #require(try client.response())
      #expect(response["connection"] == "keep-alive")
    }
  }

  @Test("a large response arrives complete at a slow reader", arguments: Variant.all)
  func largeResponse(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect(receiveBuffer: 4096)
    try client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n" + Self.get)
    let response = try #require(try client.response())
    #expect(response.body == Router.large)
    #expect(try client.response()?.text == "hello")
  }

  @Test("the Date of responses changes over time", .realSeconds, arguments: Variant.plain)
  func date(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    let start = time(nil)
    var dates: Set<String> = []
    repeat {
      try client.send(Self.get)
      dates.insert(try #require(try client.response()?["date"]))
    } while time(nil) < start + 2
    #expect(dates.count >= 2)
  }
}
