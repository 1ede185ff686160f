import JSON
import TestSupport
import Testing

@Suite("The parameters of a token request")
struct TokenParameterTests {
  @Test("have the same effect in a query and in a JSON object")
  func queryAndContent() throws {
    let server = try Ground().serve([:], ["--unsafe-allow-anonymous"])
    let byQuery = try server.request("/token?ttl=3600&origin=https%3A%2F%2Fa.example&origin=https://b.example")
    let byContent = try server.request(
      "/token", "-d", #"{"ttl":3600,"origin":["https://a.example","https://b.example"]}"#)
    #expect(byQuery.json?["origin"]?.strings == ["https://a.example", "https://b.example"])
    #expect(byQuery.token != nil && byQuery.token == byContent.token)
  }

  @Test("may contain a whole number with the fraction .0")
  func fraction() throws {
    let server = try Ground().serve()
    let token = try server.request("/token", "-d", #"{"ttl":3600}"#).token
    #expect(try server.request("/token", "-d", #"{"ttl":3600.0}"#).token == token)
  }

  @Test("may contain one origin as a string")
  func oneOrigin() throws {
    let response = try Ground().serve([:], ["--unsafe-allow-anonymous"])
      .request("/token", "-d", #"{"origin":"https://app.example.com"}"#)
    #expect(response.json?["origin"]?.strings == ["https://app.example.com"])
  }

  @Test(
    "may be absent",
    arguments: [["-X", "POST"], ["-d", "{}"], ["-d", " "], ["-H", "Transfer-Encoding: chunked", "-d", "{}"]])
  func nothing(_ options: [String]) throws {
    let server = try Ground().serve()
    let response = try ParsedResponse(curl: options + ["\(server.url)/token"])
    // White space alone is no JSON text (RFC 8259 §2).
    #expect(response.status == (options == ["-d", " "] ? 400 : 200))
  }

  @Test(
    "are not ignored in the content of a GET",
    arguments: [
      (["-d", #"{"ttl":60}"#], 400), (["-H", "Content-Length: 0"], 200),
      // Some clients send no content so.
      (["-H", "Transfer-Encoding: chunked", "-d", ""], 200),
    ])
  func contentOfGet(_ options: [String], _ status: Int) throws {
    let server = try Ground().serve()
    let response = try ParsedResponse(curl: ["-X", "GET"] + options + ["\(server.url)/token"])
    #expect(response.status == status)
    if status == 400 {
      #expect(response.errorCode == "invalid_parameter")
      #expect(response.text.contains("Use POST for content."))
    }
  }

  @Test("contain origins that the server normalizes as browsers do")
  func normalised() throws {
    let response = try Ground().serve([:], ["--unsafe-allow-anonymous"]).request(
      "/token?origin=HTTPS://App.Example.com:443")
    #expect(response.json?["origin"]?.strings == ["https://app.example.com"])
  }

  @Test(
    "cause 400 with a reason if the query is invalid",
    arguments: [
      "ttl=59", "ttl=86401", "ttl=0", "ttl=-1", "ttl=1e3", "ttl=", "ttl=60s", "ttl=99999999999999999999",
      "ttl=60&ttl=61", "tll=60", "origin=", "origin=null", "origin=*", "origin=ftp://a.example",
      "origin=https://*.example", "origin=https://a.example/path", "origin=a.example", "x",
      "origin=%ff",
    ])
  func refusedQuery(_ query: String) throws {
    let response = try Ground().serve([:], ["--unsafe-allow-anonymous"]).request("/token?\(query)")
    #expect(response.status == 400)
    #expect(response.errorCode == "invalid_parameter")
    #expect(response["Cache-Control"] == "no-store")
  }

  @Test(
    "cause 400 with a reason if the content is invalid",
    arguments: [
      ("{", "malformed_request"), ("[]", "malformed_request"), ("\"x\"", "malformed_request"),
      ("ttl=60", "malformed_request"), ("{\"ttl\":60}x", "malformed_request"), ("{'ttl':60}", "malformed_request"),
      ("{\"ttl\":\"60\"}", "invalid_parameter"), ("{\"ttl\":60.5}", "invalid_parameter"),
      ("{\"ttl\":60,\"ttl\":61}", "invalid_parameter"), ("{\"tll\":60}", "invalid_parameter"),
      ("{\"origin\":1}", "invalid_parameter"), ("{\"origin\":[1]}", "invalid_parameter"),
      ("{\"ttl\":null}", "invalid_parameter"), ("{\"origin\":{}}", "invalid_parameter"),
      // The token would be valid for every origin.
      ("{\"origin\":[]}", "invalid_parameter"), ("{\"origin\":[],\"ttl\":60}", "invalid_parameter"),
      ("{\"a\":[\(String(repeating: "0,", count: 255))0]}", "malformed_request"),
    ])
  func refusedContent(_ content: String, _ code: String) throws {
    let response = try Ground().serve([:], ["--unsafe-allow-anonymous"]).request("/token", "-d", content)
    #expect(response.status == 400)
    #expect(response.errorCode == code)
  }

  @Test("cause 413 if the content exceeds the limit, with a known length or in chunks")
  func tooLarge() throws {
    let ground = try Ground()
    let server = try ground.serve(["SERVER_LIMITS_BODY_BYTES": "1KB"])
    let file = try ground.directory.write("{\"origin\":\"\(String(repeating: "x", count: 2000))\"}", to: "body.json")
    for options in [["--data-binary", "@\(file)"], ["-H", "Transfer-Encoding: chunked", "--data-binary", "@\(file)"]] {
      let response = try ParsedResponse(curl: options + ["\(server.url)/token"])
      #expect(response.status == 413)
      #expect(response.errorCode == "content_too_large")
      #expect(response["Connection"] == "close")
    }
  }

  @Test("may follow 100 Continue if the client expects it")
  func expectContinue() throws {
    let connection = try Ground().serve().connect()
    connection.send("POST /token HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    #expect(try connection.interimResponse() == "HTTP/1.1 100 Continue")
    connection.send("{}")
    #expect(try connection.response().status == 200)
  }

  @Test("cause an error for too many origins before any origin is parsed")
  func tooManyOrigins() throws {
    let server = try Ground().serve([:], ["--unsafe-allow-anonymous"])
    let origins = Array(repeating: "nonsense", count: 33)
    let content = "{\"origin\":[\"\(origins.joined(separator: "\",\""))\"]}"
    for response in [
      try server.request("/token?origin=" + origins.joined(separator: "&origin=")),
      try server.request("/token", "-d", content),
    ] {
      #expect(response.errorCode == "invalid_parameter")
      #expect(response.errorDetail?.contains("33") == true, "\(response.text)")
    }
  }

  @Test("cannot exceed access.anonymous.ttl")
  func anonymousTTL() throws {
    let server = try Ground().serve(["ACCESS_ANONYMOUS": "{ token: true, ttl: '1h' }"])
    #expect(try server.request("/token?ttl=3601").errorCode == "invalid_parameter")
    let json = try #require(try server.request("/token").json)
    #expect(try #require(json["expiresIn"]?.integer) <= 3600)
  }
}
