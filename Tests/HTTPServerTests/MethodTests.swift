import EventLoop
import TestSupport
import Testing

@testable import HTTPServer

/// Responses to each method and each form of the target.
@Suite struct MethodTests {
  @Test("HEAD gets the head of GET without content", arguments: Variant.all)
  func head(_ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    for path in ["/hello", "/nowhere"] {
      try client.send("HEAD \(path) HTTP/1.1\r\nHost: a\r\n\r\nGET \(path) HTTP/1.1\r\nHost: a\r\n\r\n")
      let head = try #require(try client.response(isHead: true))
      let full = try #require(try client.response())
      #expect(head.statusLine == full.statusLine)
      #expect(head["content-length"] == "\(full.body.count)")
      #expect(head["content-type"] == full["content-type"])
    }
  }

  struct Case: CustomTestStringConvertible, Sendable {
    let request: String
    let status: Int
    let code: String?
    let allow: String?
    let closes: Bool
    var testDescription: String { request }

    init(_ request: String, _ status: Int, _ code: String? = nil, allow: String? = nil, closes: Bool = false) {
      (self.request, self.status, self.code, self.allow, self.closes) = (request, status, code, allow, closes)
    }
  }

  private static let cases = [
    Case("GET /hello", 200),
    Case("GET /hello?a=b", 200),
    Case("GET http://a.example/hello", 200),
    Case("GET HTTPS://b.example:8443/hello?x", 200),
    Case("POST /echo", 200),
    Case("OPTIONS /hello", 204, allow: "GET, HEAD, OPTIONS"),
    Case("OPTIONS /echo", 204, allow: "GET, HEAD, POST, OPTIONS"),
    Case("OPTIONS *", 204, allow: "GET, HEAD, POST, OPTIONS"),
    Case("OPTIONS http://a.example", 204, allow: "GET, HEAD, POST, OPTIONS"),
    Case("OPTIONS /nowhere", 404, "not_found"),
    Case("GET /", 404, "not_found"),
    Case("GET http://a.example", 404, "not_found"),
    Case("GET /hello/", 404, "not_found"),
    Case("GET /Hello", 404, "not_found"),
    Case("GET /hell%6f", 404, "not_found"),
    Case("GET //hello", 404, "not_found"),
    Case("POST /hello", 405, "method_not_allowed", allow: "GET, HEAD, OPTIONS"),
    Case("PUT /echo", 405, "method_not_allowed", allow: "GET, HEAD, POST, OPTIONS"),
    Case("DELETE /echo", 405, "method_not_allowed", allow: "GET, HEAD, POST, OPTIONS"),
    Case("PATCH /echo", 405, "method_not_allowed", allow: "GET, HEAD, POST, OPTIONS"),
    Case("TRACE /hello", 405, "method_not_allowed", allow: "GET, HEAD, OPTIONS", closes: true),
    Case("TRACE /nowhere", 404, "not_found", closes: true),
    Case("TRACE http://a.example/nowhere", 404, "not_found", closes: true),
    Case("TRACE http://a.example", 404, "not_found", closes: true),
    Case("CONNECT a.example:443", 501, "not_implemented", closes: true),
    Case("BREW /hello", 501, "not_implemented", closes: true),
    Case("get /hello", 501, "not_implemented", closes: true),
  ]

  @Test("each method and target gets its response", arguments: cases, Variant.plain)
  func respond(_ item: Case, _ variant: Variant) throws {
    let server = try TestServer(variant)
    let client = try server.connect()
    try client.send("\(item.request) HTTP/1.1\r\nHost: a\r\n\r\nGET /echo?next HTTP/1.1\r\nHost: a\r\n\r\n")
    let response = try #require(try client.response())
    #expect(response.status == item.status)
    #expect(response["allow"] == item.allow)
    #expect(response.isLast == item.closes)
    if let code = item.code { try expectError(response, code: code) }
    #expect(try client.response()?.text == (item.closes ? nil : "next"))
  }

  @Test("each request gets its own request ID")
  func requestIDs() throws {
    let server = try TestServer(Variant.plain[0])
    let client = try server.connect()
    var ids: Set<String> = []
    for _ in 0..<10 {
      try client.send("GET /hello HTTP/1.1\r\nHost: a\r\nX-Request-ID: mine\r\n\r\n")
      ids.insert(try #require(try client.response()?["x-request-id"]))
    }
    #expect(ids.count == 10)
    #expect(ids.allSatisfy { $0.utf8.count == 32 })
  }

  @Test(
    "the server keeps a trusted proxy's request ID if the ID is safe",
    arguments: [
      ("abc-DEF_1.2", true), (String(repeating: "a", count: 64), true), (String(repeating: "a", count: 65), false),
      ("a b", false), ("a\"b", false), ("", false), ("é", false), ("a\r\nX-Request-ID: b", false),
    ])
  func foreignID(id: String, isKept: Bool) throws {
    let server = try TestServer(Variant.plain[0], trusts: { $0.isLoopback })
    let client = try server.connect()
    try client.send("GET /nowhere HTTP/1.1\r\nHost: a\r\nX-Request-ID: \(id)\r\n\r\n")
    let response = try #require(try client.response())
    #expect((response["x-request-id"] == id) == isKept)
    try expectError(response, code: "not_found")
  }
}

/// Checks that an error has the format of the server's errors.
func expectError(_ response: RawResponse, code: String, sourceLocation: SourceLocation = #_sourceLocation) throws {
  let id = try #require(response["x-request-id"], sourceLocation: sourceLocation)
  let start = #"{"errors":[{"id":"\#(id)","status":"\#(response.status)","code":"\#(code)","title":""#
  #expect(response.text.hasPrefix(start), "\(response.text)", sourceLocation: sourceLocation)
  #expect(response.text.contains(#"","detail":""#), sourceLocation: sourceLocation)
  #expect(response.text.hasSuffix("\"}]}\n"), sourceLocation: sourceLocation)
  #expect(response["content-type"] == "application/json", sourceLocation: sourceLocation)
  #expect(response["cache-control"] == "no-store", sourceLocation: sourceLocation)
}
