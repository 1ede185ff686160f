import TestSupport
import Testing

@testable import HTTPServer

/// Request content, read and unread.
@Suite struct BodyTests {
  private static let next = "GET /echo?next HTTP/1.1\r\nHost: a\r\n\r\n"

  private static func chunked(_ chunks: [String], trailers: String = "") -> String {
    chunks.map { "\(String($0.utf8.count, radix: 16))\r\n\($0)\r\n" }.joined() + "0\r\n\(trailers)\r\n"
  }

  private static func post(_ path: String, _ fields: String, _ content: String) -> String {
    "POST \(path) HTTP/1.1\r\nHost: a\r\n\(fields)\r\n\r\n\(content)"
  }

  @Test("content of either framing reaches the route", arguments: Variant.all)
  func content(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    let long = String(repeating: "0123456789", count: 10_000)
    let requests = [
      (Self.post("/echo", "Content-Length: 5", "hello"), "hello"),
      (Self.post("/echo", "Content-Length: 0", ""), ""),
      (Self.post("/echo", "Content-Length: 100000", long), long),
      (Self.post("/echo", "Transfer-Encoding: chunked", Self.chunked(["hel", "lo"])), "hello"),
      (Self.post("/echo", "Transfer-Encoding: chunked", Self.chunked([])), ""),
      (Self.post("/echo", "Transfer-Encoding: chunked", Self.chunked([long])), long),
      (Self.post("/echo", "Transfer-Encoding: chunked", Self.chunked(["a"], trailers: "X: y\r\nZ: w\r\n")), "a"),
      (Self.post("/echo", "Transfer-Encoding: chunked", "1;ext=\"v\"\r\na\r\n0\r\n\r\n"), "a"),
    ]
    for (request, content) in requests {
      try client.send(request + Self.next)
      #expect(try client.response()?.text == content)
      #expect(try client.response()?.text == "next")
    }
  }

  @Test("content beyond the route's limit is refused, and the connection closes", arguments: Variant.all)
  func tooLarge(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let long = String(repeating: "a", count: 100_001)
    for request in [
      Self.post("/echo", "Content-Length: 100001", long), Self.post("/echo", "Content-Length: 9223372036854775807", ""),
      Self.post("/echo", "Transfer-Encoding: chunked", Self.chunked([long])),
      Self.post("/echo", "Content-Length: 100001\r\nExpect: 100-continue", ""),
    ] {
      let responses = try server.responses(to: request + Self.next)
      #expect(responses.map(\.status) == [413])
      #expect(responses.first?.isLast == true)
      if let response = responses.first { try expectError(response, code: "content_too_large") }
    }
  }

  @Test("the server consumes unread content of up to 64 KiB and answers the next request", arguments: Variant.all)
  func unread(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    let content = String(repeating: "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", count: 2048)
    #expect(content.utf8.count == 65_536)
    for (path, status) in [("/hello", 405), ("/nowhere", 404)] {
      for request in [
        Self.post(path, "Content-Length: 65536", content),
        // As much as arrives with the head: the end of longer chunked content is unknown when the response is due.
        Self.post(path, "Transfer-Encoding: chunked", Self.chunked([String(content.prefix(4096))])),
      ] {
        try client.send(request + Self.next)
        #expect(try client.response()?.status == status)
        #expect(try client.response()?.text == "next")
      }
    }
  }

  @Test("longer unread content closes the connection after the response", arguments: Variant.all)
  func longUnread(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let content = String(repeating: "a", count: 65_537)
    let fixed = try server.responses(to: Self.post("/hello", "Content-Length: 65537", content) + Self.next)
    #expect(fixed.map(\.status) == [405])
    #expect(fixed.first?.isLast == true)
    let chunked = try server.responses(
      to: Self.post("/hello", "Transfer-Encoding: chunked", Self.chunked([content])) + Self.next)
    #expect(chunked.map(\.status) == [405])
    #expect(chunked.first?.isLast == true)
  }

  @Test("malformed unread content is refused, and the connection closes", arguments: Variant.all)
  func malformedUnread(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let responses = try server.responses(to: Self.post("/hello", "Transfer-Encoding: chunked", "zz\r\n" + Self.next))
    #expect(responses.map(\.status) == [400])
    #expect(responses.first?.isLast == true)
  }

  @Test("a client that waits for 100 gets 100 when a route reads the content", arguments: Variant.all)
  func continues(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    try client.send(Self.post("/echo", "Content-Length: 5\r\nExpect: 100-continue", ""))
    #expect(try client.response()?.status == 100)
    try client.send("hello" + Self.next)
    #expect(try client.response()?.text == "hello")
    #expect(try client.response()?.text == "next")
  }

  @Test("a client that did not wait for 100 gets no 100", arguments: Variant.all)
  func needsNoContinue(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    try client.send(Self.post("/echo", "Content-Length: 5\r\nExpect: 100-continue", "hello"))
    #expect(try client.response()?.text == "hello")
  }

  @Test(
    "a client that waits for 100 gets a final response that announces the close if the content is not read",
    arguments: Variant.all)
  func refusesToContinue(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let responses = try server.responses(
      to: Self.post("/hello", "Content-Length: 5\r\nExpect: 100-continue", "") + Self.next)
    #expect(responses.map(\.status) == [405])
    #expect(responses.first?.isLast == true)
  }

  @Test("a malformed chunk is refused, and no later request is answered", arguments: Variant.all)
  func malformedChunk(_ variant: Variant) throws {
    let server = try TestServer(variant)
    for body in [
      "zz\r\n", "1\r\nab\r\n", "0x1\r\na\r\n", "1\na\r\n", "10000000000000000\r\n", "1\r\na\r\n0\r\nX\r\n\r\n",
    ] {
      let responses = try server.responses(to: Self.post("/echo", "Transfer-Encoding: chunked", body + Self.next))
      #expect(responses.map(\.status) == [400], "\(body)")
      #expect(responses.first?.isLast == true)
    }
  }

  @Test("a client that disconnects in the middle of its content gets no response, and a record", arguments: Variant.all)
  func leaves(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    try client.send(Self.post("/echo", "Content-Length: 5", "he"))
    client.finishSending()
    #expect(try client.response() == nil)
    server.waitForConnections(0)
    #expect(server.recorder.statuses == [499])
  }
}
