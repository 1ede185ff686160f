import TestSupport
import Testing

@testable import HTTPServer

/// Refusals of the codec, seen at the socket.
@Suite struct RefusalTests {
  private static let smuggled = "GET /echo?smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

  @Test("a refused request is the last of its connection", .realSeconds, arguments: RefusedRequest.all, Variant.all)
  func refusal(_ item: RefusedRequest, _ variant: Variant) throws {
    let server = try TestServer(variant)
    let responses = try server.responses(to: item.bytes + Array(Self.smuggled.utf8))
    #expect(responses.map(\.status) == [item.status])
    let response = try #require(responses.first)
    #expect(response.isLast)
    try expectError(response, code: item.code)
    #expect(server.recorder.statuses == [item.status])
  }

  @Test("requests before a refused request are answered", arguments: Variant.all)
  func earlier(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let responses = try server.responses(
      to: "GET /hello HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\nHost: a\r\n\r\n" + Self.smuggled)
    #expect(responses.map(\.status) == [200, 400])
    #expect(responses.map(\.isLast) == [false, true])
  }

  @Test("bytes after a refusal are not read as a request", arguments: Variant.all)
  func later(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    try client.send("GET / HTTP/1.1\nHost: a\r\n\r\n")
    #expect(try client.response()?.status == 400)
    // The server may have closed by now and then reads nothing, which is correct as well.
    try? client.send(Self.smuggled)
    #expect(try client.rest().isEmpty)
    #expect(server.recorder.statuses == [400])
  }

  @Test("a refusal of a HEAD has no content", arguments: Variant.all)
  func head(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    try client.send("HEAD /hello HTTP/1.1\r\nHost: a b\r\n\r\n")
    let response = try #require(try client.response(isHead: true))
    #expect(response.status == 400)
    #expect(try client.rest().isEmpty)
  }

  @Test("an end of input within a request closes the connection without a response", arguments: Variant.all)
  func everyEnd(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let bytes = Array("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc".utf8)
    for count in bytes.indices {
      let client = try server.connect()
      try client.send(Array(bytes[..<count]))
      client.finishSending()
      #expect(try client.rest().isEmpty, "after \(count) bytes")
    }
    server.waitForConnections(0)
    #expect(server.recorder.statuses == [499, 499, 499], "only whole heads have a record")
  }
}
