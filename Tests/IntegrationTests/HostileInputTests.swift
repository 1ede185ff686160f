import TestSupport
import Testing

@Suite("A hostile client")
struct HostileInputTests {
  @Test("gets the responses to a hundred pipelined requests in order")
  func pipelining() throws {
    let connection = try Ground().serve().connect()
    let requests = (0..<100).map { "GET /\($0 % 2 == 0 ? "token" : "nothing") HTTP/1.1\r\nHost: a\r\n\r\n" }
    connection.send(requests.joined())
    for index in 0..<100 { #expect(try connection.response().status == (index % 2 == 0 ? 200 : 404)) }
  }

  @Test("cannot smuggle a request behind a refused request")
  func smuggling() throws {
    let server = try Ground().serve()
    for framing in [
      "Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: xchunked",
      "Transfer-Encoding: chunked, identity", "Transfer-Encoding : chunked", "Content-Length: +5",
      "Content-Length: 5, 5",
      "Content-Length: 5\r\nContent-Length: 6", "Transfer-Encoding:\u{0B}chunked", "Content-Length: 0x5",
    ] {
      let connection = try server.connect()
      connection.send(
        "POST /token HTTP/1.1\r\nHost: a\r\n\(framing)\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
      connection.finishSending()
      let all = try connection.receiveAll()
      #expect(all.hasPrefix("HTTP/1.1 400 ") || all.hasPrefix("HTTP/1.1 501 "), "\(framing): \(all)")
      #expect(all.split(separator: "\nHTTP/1.1 ").count == 1, "\(framing): \(all)")
    }
  }

  @Test(
    "gets 400 for malformed content, even on a route that ignores content", arguments: ["/healthz", "/token", "/x"])
  func malformedContent(path: String) throws {
    let connection = try Ground().serve().connect()
    connection.send("GET \(path) HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n")
    let response = try connection.response()
    #expect(response.status == 400)
    #expect(response.errorCode == "malformed_request")
    #expect(response["Connection"] == "close")
    #expect(try connection.isClosedByPeer())
  }

  @Test("cannot end the server with noise")
  func noise() throws {
    let server = try Ground().serve()
    for noise in [
      "\r\n\r\n\r\n", "\0\0\0\0", "\u{16}\u{03}\u{01}\u{02}\u{00}\u{01}", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      String(repeating: "A", count: 100_000), "GET / HTTP/1.1\r\nHost: a\r\nX: \u{7F}\r\n\r\n", " ",
      "\u{FEFF}GET / HTTP/1.1\r\n",
      "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET /token HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
      let connection = try server.connect()
      connection.send(noise)
      connection.finishSending()
      let all = try connection.receiveAll()
      #expect(all.isEmpty || all.hasPrefix("HTTP/1.1 4") || all.hasPrefix("HTTP/1.1 5"), "\(all)")
    }
    #expect(try server.request("/token").status == 200)
    #expect(server.stop() == 0)
  }

  @Test("that disconnects within a request does not affect others")
  func goneMidway() throws {
    let server = try Ground().serve()
    for part in ["G", "GET /token HTTP/1.1\r\nHo", "POST /token HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"] {
      try server.connect().send(part)
    }
    #expect(try server.request("/token").status == 200)
    #expect(server.stop() == 0)
  }
}
