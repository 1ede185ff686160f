import TestSupport
import Testing

@Suite("A cross-origin page")
struct CrossOriginTests {
  private static let listed = ["ACCESS_ANONYMOUS": "{ token: true, origins: ['https://app.example.com'] }"]
  private static let page = "Origin: https://app.example.com"

  @Test("of an allowed origin can read the token")
  func token() throws {
    let response = try Ground().serve(Self.listed).request("/token", "-H", Self.page)
    #expect(response["Access-Control-Allow-Origin"] == "https://app.example.com")
    #expect(response["Access-Control-Expose-Headers"]?.contains("X-Request-ID") == true)
    #expect(response["Access-Control-Allow-Credentials"] == nil)
  }

  @Test("of an allowed origin can read errors", arguments: ["?ttl=1", "?bogus=1"])
  func errors(_ query: String) throws {
    let response = try Ground().serve(Self.listed).request("/token\(query)", "-H", Self.page)
    #expect(response.status == 400)
    #expect(response["Access-Control-Allow-Origin"] == "https://app.example.com")
  }

  @Test(
    "is refused if its origin has more than 300 bytes or non-ASCII characters",
    arguments: [
      "https://app.example.com\u{301}", "https://\(String(repeating: "a", count: 293)).com",
      "https://a" + String(repeating: "\u{301}\u{316}", count: 7000),
    ])
  func hostileOrigins(_ origin: String) throws {
    let server = try Ground().serve(["ACCESS_ANONYMOUS": "{ origins: ['https://app.example.com'], token: true }"])
    let refused = try server.request("/token", "-H", "Origin: \(origin)")
    #expect(refused.errorCode == "origin_not_allowed")
    // A refused origin is not quoted.
    #expect(refused.errorDetail?.contains("https://a") == false)
    let health = try server.request("/healthz", "-H", "Origin: \(origin)")
    #expect(health.status == 200 && health["Access-Control-Allow-Origin"] == nil)
  }

  @Test("with the origin null gets an explanation")
  func opaqueOrigin() throws {
    let response = try Ground().serve(Self.listed).request("/token", "-H", "Origin: null")
    #expect(response.status == 403)
    #expect(
      response.errorDetail == """
        The Origin of the request is null, so it does not name a page. Browsers send null for pages from file:// and in \
        sandboxed frames. Serve the page over http or https, from one of the origins that this server is for.
        """)
  }

  @Test("of an allowed origin can read the errors 405 and 413")
  func refusals() throws {
    let ground = try Ground()
    let server = try ground.serve(Self.listed.merging(["SERVER_LIMITS_BODY_BYTES": "256"]) { $1 })
    let long = try ground.directory.write(String(repeating: "x", count: 999), to: "long")
    for (status, options) in [(413, ["--data-binary", "@\(long)"]), (405, ["-X", "DELETE"])] {
      let response = try ParsedResponse(curl: options + ["-H", Self.page, "\(server.url)/token"])
      #expect(response.status == status)
      #expect(response["Access-Control-Allow-Origin"] == "https://app.example.com")
    }
  }

  @Test(
    "of an allowed origin can read the response of every route",
    arguments: [("/healthz", 200), ("/readyz", 200), ("/openapi.json", 200), ("/nowhere", 404), ("/token?ttl=1", 400)])
  func routes(_ path: String, _ status: Int) throws {
    let server = try Ground().serve(Self.listed)
    for (origin, isAllowed) in [(Self.page, true), ("Origin: https://evil.example", false), ("Origin;", false)] {
      let response = try server.request(path, "-H", origin)
      #expect(response.status == (path.hasPrefix("/token") && !isAllowed ? response.status : status))
      #expect(response["Access-Control-Allow-Origin"] == (isAllowed ? "https://app.example.com" : nil))
      #expect(response["Vary"] == "Origin")
    }
    let response = try server.request(path)
    #expect(response["Access-Control-Allow-Origin"] == nil)
    #expect(response["Vary"] == "Origin")
  }

  @Test("gets the allowed methods and fields from a preflight")
  func preflight() throws {
    let response = try Ground().serve(Self.listed).request(
      "/token", "-X", "OPTIONS", "-H", Self.page, "-H", "Access-Control-Request-Method: POST", "-H",
      "Access-Control-Request-Headers: content-type")
    #expect(response.status == 204)
    #expect(response["Access-Control-Allow-Origin"] == "https://app.example.com")
    #expect(response["Access-Control-Allow-Methods"]?.contains("POST") == true)
    #expect(response["Access-Control-Allow-Headers"]?.lowercased().contains("content-type") == true)
    #expect(response["Vary"]?.contains("Origin") == true)
  }

  @Test(
    "of an allowed origin may send any fields, as programs that monitor pages do",
    arguments: [
      ("baggage,sentry-trace,traceparent", "baggage, sentry-trace, traceparent"),
      ("authorization, x-datadog-trace-id ,b3", "authorization, x-datadog-trace-id, b3"), ("X-Odd~Name", "X-Odd~Name"),
      (",,music-user-token,", "music-user-token"),
      ((0..<64).map { "x-\($0)" }.joined(separator: ","), (0..<64).map { "x-\($0)" }.joined(separator: ", ")),
    ])
  func requestedFields(_ asked: String, _ allowed: String) throws {
    let server = try Ground().serve(Self.listed)
    for path in ["/token", "/readyz", "/nowhere"] {
      let response = try server.request(
        path, "-X", "OPTIONS", "-H", Self.page, "-H", "Access-Control-Request-Method: GET", "-H",
        "Access-Control-Request-Headers: \(asked)")
      let names = try #require(response["Access-Control-Allow-Headers"]).split(separator: ", ").map { $0.lowercased() }
      #expect(Set(names).isSuperset(of: allowed.split(separator: ", ").map { $0.lowercased() }))
      #expect(Set(names).count == names.count)
    }
    let foreign = try server.request(
      "/token", "-X", "OPTIONS", "-H", "Origin: https://evil.example", "-H", "Access-Control-Request-Method: GET", "-H",
      "Access-Control-Request-Headers: \(asked)")
    #expect(!foreign.fields.contains { $0.name.lowercased().hasPrefix("access-control") })
  }

  @Test(
    "that asks for no names, too many, or none that a field can have gets the usual ones",
    arguments: [
      nil, "", "*", "a b", "x:y", "ü", (0..<65).map { "x-\($0)" }.joined(separator: ","),
      String(repeating: "a", count: 2100),
    ] as [String?])
  func usualFields(_ asked: String?) throws {
    let server = try Ground().serve(Self.listed)
    let options = asked.map { ["-H", "Access-Control-Request-Headers: \($0)"] } ?? []
    let response = try ParsedResponse(
      curl: options + [
        "-X", "OPTIONS", "-H", Self.page, "-H", "Access-Control-Request-Method: GET",
        "\(server.url)/token",
      ])
    let allowed = try #require(response["Access-Control-Allow-Headers"])
    for name in ["Authorization", "X-API-Key", "Content-Type", "Music-User-Token"] { #expect(allowed.contains(name)) }
    #expect(!allowed.contains("*") && !allowed.contains("x-1"))
  }

  @Test(
    "of an allowed origin can read a refusal before routing, over both versions of HTTP",
    arguments: ["--http1.1", "--http2"],
    [
      (400, ["/%zz"]), (400, ["/token?a=%zz"]), (414, ["/\(String(repeating: "a", count: 9000))"]),
      (417, ["/token", "-H", "Expect: tea"]), (421, ["/token", "-H", "Host: stranger.example"]),
      (431, ["/token", "-H", "X-Pad: \(String(repeating: "a", count: 60_000))"]), (501, ["/token", "-X", "BREW"]),
      (405, ["/token", "-X", "TRACE"]),
    ])
  func beforeRouting(_ version: String, _ item: (status: Int, options: [String])) throws {
    let ground = try Ground()
    let server = try ground.serve(try ground.tlsSettings().merging(Self.listed) { $1 })
    for (origin, isAllowed) in [(Self.page, true), ("Origin: https://evil.example", false)] {
      let response = try ParsedResponse(
        curl: ["--cacert", ground.certificateFile, version, "--path-as-is", "-H", origin]
          + item.options.dropFirst() + ["\(server.url)\(item.options[0])"])
      #expect(response.status == item.status)
      #expect(response["Access-Control-Allow-Origin"] == (isAllowed ? "https://app.example.com" : nil))
      #expect(response["Vary"] == "Origin" && response.error != nil)
    }
  }

  @Test(
    "of an allowed origin can send a request that will be refused, and then read why",
    arguments: ["--http1.1", "--http2"],
    [
      "/%zz", "/token?a=%zz", "/\(String(repeating: "a", count: 9000))", "/v1/me//library", "/v1/catalog/usa/songs",
      "/nowhere",
    ])
  func refusedLater(_ version: String, _ path: String) throws {
    let ground = try Ground()
    let server = try ground.serve(try ground.tlsSettings().merging(Self.listed) { $1 })
    let preflight = ["-X", "OPTIONS", "-H", "Access-Control-Request-Method: DELETE"]
    for (origin, isAllowed) in [(Self.page, true), ("Origin: https://evil.example", false)] {
      let response = try ParsedResponse(
        curl: ["--cacert", ground.certificateFile, version, "--path-as-is", "-H", origin] + preflight
          + ["\(server.url)\(path)"])
      #expect((200..<300).contains(response.status) == isAllowed)
      #expect(response["Access-Control-Allow-Origin"] == (isAllowed ? "https://app.example.com" : nil))
      #expect(response["Access-Control-Allow-Methods"]?.contains("DELETE") == (isAllowed ? true : nil))
      #expect(response["Vary"] == "Origin")
    }
  }

  @Test("of a refused origin gets no CORS fields from a preflight")
  func refusedPreflight() throws {
    let response = try Ground().serve(Self.listed).request(
      "/token", "-X", "OPTIONS", "-H", "Origin: https://evil.example", "-H", "Access-Control-Request-Method: GET")
    #expect(!response.fields.contains { $0.name.hasPrefix("Access-Control") })
  }
}
