import JSON
import TestSupport
import Testing

@Suite("An error")
struct ErrorShapeTests {
  /// A request and the expected response.
  struct Case: CustomTestStringConvertible {
    let testDescription: String
    let request: String
    let status: Int
    let code: String
    var closes = false
  }

  static let cases = [
    Case(
      testDescription: "no such path", request: "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n", status: 404,
      code: "not_found"),
    Case(
      testDescription: "a path that only begins like one", request: "GET /token/ HTTP/1.1\r\nHost: a\r\n\r\n",
      status: 404,
      code: "not_found"),
    Case(
      testDescription: "another method", request: "PUT /token HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
      status: 405,
      code: "method_not_allowed"),
    Case(
      testDescription: "a method unheard of", request: "BREW /token HTTP/1.1\r\nHost: a\r\n\r\n", status: 501,
      code: "not_implemented", closes: true),
    Case(
      testDescription: "CONNECT", request: "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", status: 501,
      code: "not_implemented", closes: true),
    Case(
      testDescription: "TRACE", request: "TRACE /token HTTP/1.1\r\nHost: a\r\n\r\n", status: 405,
      code: "method_not_allowed", closes: true),
    Case(
      testDescription: "a bad parameter", request: "GET /token?ttl=1 HTTP/1.1\r\nHost: a\r\n\r\n", status: 400,
      code: "invalid_parameter"),
    Case(
      testDescription: "no Host", request: "GET /token HTTP/1.1\r\n\r\n", status: 400, code: "malformed_request",
      closes: true),
    Case(
      testDescription: "a bare LF", request: "GET /token HTTP/1.1\nHost: a\n\n", status: 400, code: "malformed_request",
      closes: true),
    Case(
      testDescription: "both framings",
      request: "POST /token HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      status: 400, code: "malformed_request", closes: true),
    Case(
      testDescription: "another expectation",
      request: "POST /token HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: the-unexpected\r\n\r\n{}", status: 417,
      code: "expectation_failed", closes: true),
    Case(
      testDescription: "a request line that is too long",
      request: "GET /\(String(repeating: "x", count: 9000)) HTTP/1.1\r\nHost: a\r\n\r\n", status: 414,
      code: "uri_too_long", closes: true),
    Case(
      testDescription: "too many fields",
      request: "GET /token HTTP/1.1\r\nHost: a\r\n\(String(repeating: "a: b\r\n", count: 101))\r\n", status: 431,
      code: "header_fields_too_large", closes: true),
    Case(
      testDescription: "another version", request: "GET /token HTTP/2.0\r\nHost: a\r\n\r\n", status: 505,
      code: "http_version_not_supported", closes: true),
  ]

  @Test("is an error object like Apple's, and its id equals X-Request-ID", arguments: cases)
  func shape(_ testCase: Case) throws {
    let connection = try Ground().serve().connect()
    connection.send(testCase.request)
    let response = try connection.response()
    #expect(response.status == testCase.status)
    #expect(response["Content-Type"] == "application/json")
    #expect(response["Cache-Control"] == "no-store")
    let error = try #require(response.error)
    #expect(error.names == ["code", "detail", "id", "status", "title"])
    #expect(error["code"]?.string == testCase.code)
    #expect(error["status"]?.string == "\(testCase.status)")
    #expect(error["id"]?.string == response["X-Request-ID"])
    #expect(error["detail"]?.string?.hasSuffix(".") == true)
    #expect(response["Allow"] != nil || testCase.status != 405)
    #expect((response["Connection"] == "close") == testCase.closes)
  }

  @Test("before routing closes the connection", arguments: cases.filter(\.closes))
  func closes(_ testCase: Case) throws {
    let connection = try Ground().serve().connect()
    connection.send(testCase.request + "GET /token HTTP/1.1\r\nHost: a\r\n\r\n")
    connection.finishSending()
    let all = try connection.receiveAll()
    #expect(all.split(separator: "\nHTTP/1.1 ").count == 1, "\(all)")
  }

  @Test("of a route leaves the connection open", arguments: cases.filter { !$0.closes })
  func staysOpen(_ testCase: Case) throws {
    let connection = try Ground().serve().connect()
    connection.send(testCase.request + "GET /token HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(try connection.response().status == testCase.status)
    #expect(try connection.response().status == 200)
  }

  @Test("has a fresh id, whatever X-Request-ID the client sends")
  func freshID() throws {
    let server = try Ground().serve()
    let ids = try (0..<3).map { _ in try server.request("/nothing", "-H", "X-Request-ID: mine")["X-Request-ID"] ?? "" }
    #expect(Set(ids).count == 3)
    #expect(!ids.contains("mine"))
  }

  @Test("has the id of a trusted proxy if this id is safe")
  func proxysID() throws {
    let server = try Ground().serve(["SERVER_TRUSTED_PROXIES": "['127.0.0.0/8']"])
    let response = try server.request("/nothing", "-H", "X-Request-ID: from-the.proxy_1")
    #expect(response["X-Request-ID"] == "from-the.proxy_1")
    #expect(response.error?["id"]?.string == "from-the.proxy_1")
    for unsafeID in ["with space", "quote\"", String(repeating: "x", count: 65)] {
      #expect(try server.request("/nothing", "-H", "X-Request-ID: \(unsafeID)")["X-Request-ID"] != unsafeID)
    }
  }
}
