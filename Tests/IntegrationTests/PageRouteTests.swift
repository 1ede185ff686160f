import JSON
import TestSupport
import Testing

/// The routes of the page, without a browser.
@Suite("The routes of the page")
struct PageRouteTests {
  private static let pages = ["SERVER_PAGE": "true", "ADMIN_PAGE": "true"]
  private static let json = ["-H", "Content-Type: application/json"]

  private static func inspect(_ url: String, _ body: String, _ options: [String] = []) throws -> ParsedResponse {
    try ParsedResponse(curl: json + options + ["-d", body, "\(url)/page/inspect"])
  }

  /// Each rule of a report with its verdict. The key of a public key file has no ID to compare with.
  private static func verdicts(_ report: JSONValue?) -> [String] {
    guard case .array(let checks)? = report?["checks"] else { return [] }
    return checks.map { "\($0["rule"]?.string ?? "") \($0["verdict"]?.string ?? "")" }.filter {
      $0 != "header.kid.key pass"
    }
  }

  @Test("judge a token as inspect does, with the server's own key")
  func inspection() throws {
    let ground = try Ground()
    let server = try ground.serve(Self.pages)
    let token = try #require(try server.request("/token").token)
    for url in [server.url, try #require(server.adminURL)] {
      let response = try Self.inspect(url, #"{"token":"\#(token)"}"#)
      #expect(response.status == 200 && response["Cache-Control"] == "no-store")
      #expect(response.json?["acceptable"] == .bool(true))
      let own = try Program.run(
        ["inspect", "--json", "--key-file", try ground.publicKeyFile()], input: token)
      #expect(Self.verdicts(response.json) == Self.verdicts(JSONReader.read(Array(own.stdout.utf8))))
      #expect(Self.verdicts(response.json).contains("signature pass"))
      let changed = try Self.inspect(url, #"{"token":"\#(token.dropLast(4))AAAA"}"#)
      #expect(changed.json?["acceptable"] == .bool(false))
    }
  }

  @Test(
    "refuse other content",
    arguments: [
      ("[]", 400), ("{}", 400), (#"{"token":1}"#, 400), (#"{"token":"a","origin":1}"#, 400),
      (#"{"token":"a","other":1}"#, 400), (#"{"token":"a","token":"b"}"#, 400),
      (#"{"token":"a","origin":"nonsense"}"#, 400), (#"{"token":"\#(String(repeating: "a", count: 20_480))"}"#, 413),
      (#"{"token":"\#(String(repeating: "a", count: 20_000))"}"#, 200),
    ])
  func content(body: String, status: Int) throws {
    let server = try Ground().serve(Self.pages)
    #expect(try Self.inspect(server.url, body).status == status)
  }

  @Test("judge only a few tokens a second for an address, and the audit log has no grant of the others")
  func rate() throws {
    let server = try Ground().serve(Self.pages)
    let client = try RawClient(port: server.port)
    let request = "POST /page/inspect HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    // All at once, because a slow machine would send them no faster than they may come.
    try client.send(String(repeating: request + "Content-Length: 13\r\n\r\n{\"token\":\"a\"}", count: 80))
    let statuses = try (0..<80).map { _ in try #require(try client.response()).status }
    #expect(statuses.contains(429) && statuses.first == 200)
    let decisions = try ParsedResponse(curl: ["\(try #require(server.adminURL))/metrics"]).text.split(separator: "\n")
    let granted = decisions.filter { $0.hasPrefix("musickit_access_decisions_total") && $0.contains("granted") }
    let count = granted.compactMap { $0.split(separator: " ").last.flatMap { Int($0) } }.reduce(0, +)
    #expect(count == statuses.count { $0 == 200 }, "\(granted)")
  }

  @Test("need the credential of a caller on the public listener")
  func credential() throws {
    let ground = try AccessGround("", Self.pages)
    let url = ground.server.url
    #expect(try Self.inspect(url, #"{"token":"a"}"#).status == 401)
    #expect(try Self.inspect(url, #"{"token":"a"}"#, ["-H", "X-API-Key: wrong"]).status == 401)
    #expect(try Self.inspect(url, #"{"token":"a"}"#, ["-H", "X-API-Key: \(AccessGround.android)"]).status == 200)
    #expect(try Self.inspect(url, #"{"token":"a"}"#, ["-H", "Origin: https://evil.example"]).status == 403)
    #expect(try Self.inspect(url, #"{"token":"a"}"#, ["-H", "Origin: \(url)"]).status == 401)
  }

  @Test("take the listener's own origin for none, as in a GET of its page")
  func ownOrigin() throws {
    let server = try Ground().serve(Self.pages)
    for (origin, status) in [(server.url, 200), ("http://localhost:1", 403), ("https://evil.example", 403)] {
      #expect(
        try Self.inspect(server.url, #"{"token":"a"}"#, ["-H", "Origin: \(origin)"]).status == status, "\(origin)")
    }
  }

  @Test("need JSON, so that no page of another site can send it without a preflight")
  func simpleRequest() throws {
    let server = try Ground().serve(Self.pages)
    for url in [server.url, try #require(server.adminURL)] {
      let response = try ParsedResponse(curl: [
        "-H", "Content-Type: text/plain", "-d", #"{"token":"a"}"#, "\(url)/page/inspect",
      ])
      #expect(response.errorCode == "malformed_request")
    }
  }

  @Test("of operators refuse pages of other sites, and rebound names", arguments: ["127.0.0.1", "0.0.0.0"])
  func otherSites(host: String) throws {
    let server = try Ground().serve(
      Self.pages.merging(["ADMIN_HOST": host]) { $1 }, ["--unsafe-allow-anonymous"])
    let port = try #require(server.adminURL?.split(separator: ":").last)
    let url = "http://127.0.0.1:\(port)"
    func ask(_ path: String, _ field: String) throws -> ParsedResponse {
      try ParsedResponse(curl: ["-H", field, "\(url)\(path)"])
    }
    let paths = ["/page/audit", "/page/facts"]
    for path in paths { #expect(try ask(path, "Sec-Fetch-Site: same-origin").status == 200, "\(path)") }
    for field in ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: https://evil.example"] {
      for path in paths {
        let refusal = try ask(path, field)
        #expect(refusal.status == 403 && refusal["Access-Control-Allow-Origin"] == nil, "\(path) \(field)")
      }
      #expect(try Self.inspect(url, #"{"token":"a"}"#, ["-H", field]).status == 403, "\(field)")
    }
    for path in ["/page/audit", "/page/facts", "/", "/metrics"] {
      #expect(try ask(path, "Host: rebound.example:\(port)").status == 421, "\(path)")
    }
  }

  @Test("have the last fifty audit records, the newest first, without any token")
  func audit() throws {
    let server = try Ground().serve(Self.pages)
    let admin = try #require(server.adminURL)
    let token = try #require(try server.request("/token").token)
    for _ in 0..<55 { _ = try server.request("/token", "-H", "Origin: https://evil.example") }
    _ = try server.request("/token?ttl=61")
    let response = try ParsedResponse(curl: ["\(admin)/page/audit"])
    guard case .array(let records)? = response.json?["records"] else {
      Issue.record("\(response.text)")
      return
    }
    #expect(records.count == 50)
    #expect(records.first?["audit.outcome"]?.string == "granted" && records.first?["token.sha256"]?.string?.count == 64)
    #expect(records.last?["audit.outcome"]?.string == "refused")
    #expect(!response.text.contains(token) && !response.text.contains("eyJ"))
    #expect(response["Cache-Control"] == "no-store")
  }

  @Test("for operators do not exist on the public listener, nor does an explanation")
  func publicListener() throws {
    let server = try Ground().serve(Self.pages)
    for path in ["/page/audit", "/metrics", "/access/explain"] {
      #expect(try server.request(path).status == 404, "\(path)")
    }
    let facts = try #require(try server.request("/page/facts").json)
    #expect(facts["clients"] == nil && facts["publicURL"] == nil && facts["listener"]?.string == "public")
    #expect(try server.admin("/page/facts").json?["clients"] != nil)
    let demo = try RunningServer(["demo", "--port", "0"], environment: [:])
    let explained = ["-d", "{}", "\(demo.url)/access/explain"]
    #expect(try ParsedResponse(curl: Self.json + explained).status == 200)
    #expect(try demo.request("/page/audit").status == 200 && demo.request("/metrics").status == 200)
    let foreign = ["-H", "Origin: http://localhost:3000"]
    #expect(try ParsedResponse(curl: foreign + ["\(demo.url)/page/audit"]).status == 403)
    #expect(try ParsedResponse(curl: Self.json + foreign + explained).status == 403)
  }

  @Test("state what a browser may load, and nothing inline")
  func policy() throws {
    let ground = try CatalogGround(CatalogGround.forEverybody.merging(Self.pages) { $1 })
    let policy = try #require(try ground.request("/")["Content-Security-Policy"])
    #expect(policy.hasPrefix("default-src 'none'; ") && !policy.contains("unsafe"))
    #expect(policy.contains("script-src 'self' https://js-cdn.music.apple.com;"))
    #expect(policy.contains("img-src 'self' https://*.mzstatic.com;") && policy.contains("frame-ancestors 'none'"))
    let admin = try ground.server.admin("/")
    #expect(admin["Content-Security-Policy"]?.contains("https:") == false)
    #expect(admin["Cross-Origin-Opener-Policy"] == "same-origin" && admin["Referrer-Policy"] == "no-referrer")
    #expect(try ground.request("/")["Cross-Origin-Opener-Policy"] == "same-origin-allow-popups")
  }
}
