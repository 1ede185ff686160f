import JSON
import TestSupport
import Testing

/// ``BrowserTests`` with a list of clients. Some clients also have a key.
@Suite("A browser page of a listed client")
struct BrowserClientTests {
  private static let app = "https://app.example.com"
  private static let preview = "https://pr-7.preview.example.com"
  private static let studio = "https://studio.example.com"
  private static let foreignOrigins = [
    "https://evil.example", "https://preview.example.com", "https://a.b.preview.example.com", "http://app.example.com",
    "https://pr-7.preview.example.com.evil.example",
  ]

  /// The results of several calls of `ask` on a page.
  private static func views(at origin: String, _ calls: [String]) throws -> [PageView] {
    let script = "return [\(calls.map { "await \($0)" }.joined(separator: ", "))];"
    guard case .array(let views) = try Browser.shared().run(at: origin, script) else { return [] }
    return views.map(PageView.init)
  }

  private static func code(_ view: PageView) -> String? {
    guard case .array(let errors)? = view.json?["errors"] else { return nil }
    return errors.first?["code"]?.string
  }

  /// The second argument of `fetch`, with one header field.
  private static func field(_ name: String, _ value: String) -> String { "{ headers: { '\(name)': '\(value)' } }" }

  @Test("gets a bound token and catalog responses", arguments: [app, preview])
  func granted(origin: String) throws {
    let ground = try AccessGround()
    let url = ground.server.url
    let views = try Self.views(
      at: origin,
      ["ask('\(url)/token')", "ask('\(url)/token', { method: 'POST' })", "ask('\(url)\(AccessGround.album)')"])
    #expect(views.map(\.status) == [200, 200, 200])
    #expect(views.allSatisfy { $0.type == "cors" && $0["X-Request-ID"]?.isEmpty == false })
    for view in views.prefix(2) {
      let token = try CompactToken(try #require(view.json?["token"]?.string))
      #expect(token.claims["origin"]?.strings == [origin])
    }
    #expect(try #require(views.last).json?["data"] != nil)
    ground.server.stop()
    #expect(ground.auditLines.map(\.client) == ["web", "web", "web"])
  }

  @Test("can read the rate limit fields and Retry-After")
  func limited() throws {
    let rate = "catalog: true, rateLimit: { perSecond: 0.01, burst: 2 }"
    let ground = try AccessGround("", ["ACCESS_CLIENTS": "[{ id: 'web', origins: ['\(Self.app)'], \(rate) }]"])
    let url = ground.server.url
    let views = try Self.views(
      at: Self.app,
      [
        "ask('\(url)/token')", "ask('\(url)\(AccessGround.album)')", "ask('\(url)/token')",
        "ask('\(url)/v1/storefronts')",
      ])
    #expect(views.map(\.status) == [200, 200, 429, 429])
    #expect(views.map { $0["RateLimit"]?.contains("r=1") } == [true, false, false, false])
    for view in views {
      #expect(view["RateLimit-Policy"]?.contains("q=2") == true)
      #expect(view["RateLimit"]?.hasPrefix("\"caller\";r=") == true)
    }
    for view in views.dropFirst(2) {
      #expect((1...100).contains(view["Retry-After"].flatMap { Int($0) } ?? 0))
      #expect(Self.code(view) == "rate_limited")
      #expect(view["X-Request-ID"]?.isEmpty == false)
    }
    // A foreign page can read none of this.
    let foreign = try Self.views(at: "https://evil.example", ["ask('\(url)/token')", "ask('\(url)/nowhere')"])
    #expect(foreign.map(\.error) == ["TypeError", "TypeError"])
  }

  @Test("an unlisted page can read nothing, with or without a key", arguments: foreignOrigins)
  func foreign(origin: String) throws {
    let ground = try AccessGround()
    let url = ground.server.url
    let key = Self.field("Authorization", "Bearer \(AccessGround.android)")
    let calls = [
      "ask('\(url)/token')", "ask('\(url)/token', { method: 'POST' })", "ask('\(url)/token?ttl=1')",
      "ask('\(url)/token?origin=\(Self.app)')", "ask('\(url)\(AccessGround.album)')", "ask('\(url)/nowhere')",
      "ask('\(url)/healthz')", "ask('\(url)/token', \(key))", "ask('\(url)\(AccessGround.album)', \(key))",
      "ask('\(url)/token', \(Self.field("X-API-Key", AccessGround.android)))",
      "ask('\(url)/token', \(Self.field("X-API-Key", "wrong")))", "ask('\(url)/token', { method: 'DELETE' })",
    ]
    let views = try Self.views(at: origin, calls)
    #expect(views.map(\.error) == calls.map { _ in "TypeError" })
    ground.server.stop()
    // A request with a key needs a preflight. The preflight is refused, so the browser never sends the key.
    #expect(ground.auditLines.allSatisfy { $0.reason == "origin_not_allowed" && $0.client == "-" })
  }

  @Test("needs both the key and the origin if the client has both", arguments: ["Authorization", "X-API-Key"])
  func both(name: String) throws {
    let ground = try AccessGround()
    let value = name == "X-API-Key" ? AccessGround.studio : "Bearer \(AccessGround.studio)"
    let me = "{ headers: { '\(name)': '\(value)', 'Music-User-Token': 'sandbox-user-token' } }"
    let calls = [
      "ask('\(ground.server.url)\(AccessGround.album)', \(Self.field(name, value)))",
      "ask('\(ground.server.url)/v1/me/library/songs', \(me))",
      "ask('\(ground.server.url)/token', \(Self.field(name, value)))",
      "ask('\(ground.server.url)/v1/storefronts')",
    ]
    let own = try Self.views(at: Self.studio, calls)
    #expect(own.map(\.status) == [200, 200, 403, 401])
    #expect(own.map(Self.code) == [nil, nil, "not_permitted", "missing_credentials"])
    // On a page of another client the browser sends the key, and the server refuses the request.
    let other = try Self.views(at: Self.app, Array(calls.prefix(2)))
    #expect(other.map(Self.code) == ["origin_not_allowed", "origin_not_allowed"])
    ground.server.stop()
    #expect(ground.auditLines.map(\.client) == ["studio", "studio", "studio", "studio", "studio", "studio"])
  }

  @Test("can read that its key is wrong", arguments: [app, preview, studio])
  func wrongKey(origin: String) throws {
    let ground = try AccessGround()
    let calls = ["/token", AccessGround.album].flatMap { target in
      [Self.field("Authorization", "Bearer wrong"), Self.field("X-API-Key", "wrong")].map {
        "ask('\(ground.server.url)\(target)', \($0))"
      }
    }
    for view in try Self.views(at: origin, calls) {
      #expect(view.status == 401 && Self.code(view) == "invalid_credentials", "\(view)")
      #expect(view["X-Request-ID"]?.isEmpty == false)
    }
  }

  @Test("cannot read a response to a request with the browser's credentials")
  func ambient() throws {
    let ground = try AccessGround()
    let url = ground.server.url
    let views = try Self.views(
      at: Self.app,
      [
        "ask('\(url)/token', { credentials: 'include' })",
        "ask('\(url)\(AccessGround.album)', { credentials: 'include' })",
        "ask('\(url)/token', { credentials: 'include', headers: { 'X-API-Key': '\(AccessGround.android)' } })",
        "ask('\(url)/token', { credentials: 'same-origin' })",
      ])
    #expect(views.map(\.error) == ["TypeError", "TypeError", "TypeError", nil])
  }

  @Test("on the server's own origin gets a token by POST, and the error of GET explains this")
  func sameOrigin() throws {
    let port = UpstreamGround.fixedPort
    let origin = "http://localhost:\(port)"
    let clients = "[{ id: 'own', origins: ['\(origin)'], catalog: true }]"
    let server = try Ground().serve(
      ["ACCESS_CLIENTS": clients, "ACCESS_ANONYMOUS": "", "SERVER_PORT": "\(port)"])
    let script = "return [await ask('/token'), await ask('/token', { method: 'POST' })];"
    guard case .array(let values) = try Browser.shared().run(at: "\(origin)/healthz", script) else { return }
    let views = values.map(PageView.init)
    #expect(views.map(\.type) == ["basic", "basic"])
    #expect(views.map(\.status) == [401, 200])
    #expect(Self.code(views[0]) == "missing_credentials" && views[0].body.contains("POST /token"))
    let token = try CompactToken(try #require(views[1].json?["token"]?.string))
    #expect(token.claims["origin"]?.strings == [origin])
    server.stop()
    #expect(server.auditLines.map(\.reason) == ["no_origin", nil])
  }
}
