import JSON
import TestSupport
import Testing

@Suite("Anonymous callers")
struct AnonymousOriginTests {
  private static let listed = [
    "ACCESS_ANONYMOUS": "{ token: true, origins: ['https://app.example.com', 'https://b.example'] }"
  ]

  @Test("need an Origin if the policy lists origins, and the error explains POST")
  func noOrigin() throws {
    let response = try Ground().serve(Self.listed).request("/token")
    #expect(response.status == 401)
    #expect(response.errorCode == "missing_credentials")
    #expect(response["WWW-Authenticate"] != nil)
    #expect(try #require(response.errorDetail).contains("POST /token"))
  }

  @Test("need an Origin also if they name one of the listed origins, which any program could")
  func namedWithoutOrigin() throws {
    let server = try Ground().serve(Self.listed)
    let name = "https://app.example.com"
    for options in [["\(server.url)/token?origin=\(name)"], ["-d", "{\"origin\":\"\(name)\"}", "\(server.url)/token"]] {
      let response = try ParsedResponse(curl: options)
      #expect(response.status == 401 && response.errorCode == "missing_credentials")
    }
    #expect(try server.request("/token?origin=\(name)", "-H", "Origin: \(name)").status == 200)
  }

  @Test("with the origin of a client that needs a credential as well do not learn the client's name")
  func clientName() throws {
    let digest = try AccessGround.sha256("key")
    let client = "[{ id: 'secret-name', apiKey: { sha256: '\(digest)' }, origins: ['https://app.example.com'] }]"
    let server = try Ground().serve(["ACCESS_ANONYMOUS": "", "ACCESS_CLIENTS": client])
    for origin in ["https://app.example.com", "https://evil.example", "null"] {
      let response = try server.request("/token", "-H", "Origin: \(origin)")
      #expect(response.status == (origin == "https://app.example.com" ? 401 : 403))
      #expect(!response.text.contains("secret-name"), "\(response.text)")
    }
    // Its own credential is what the name is told for.
    let known = try server.request("/token", "-H", "X-API-Key: key", "-H", "Origin: https://evil.example")
    #expect(known.errorDetail == "https://evil.example is not one of the origins of client secret-name.")
  }

  @Test("get a token bound to their own origin", arguments: [[], ["-X", "POST"]])
  func bound(_ options: [String]) throws {
    let server = try Ground().serve(Self.listed)
    let response = try ParsedResponse(curl: options + ["-H", "Origin: https://b.example", "\(server.url)/token"])
    #expect(response.status == 200)
    #expect(try CompactToken(try #require(response.token)).claims["origin"]?.strings == ["https://b.example"])
  }

  @Test("get no token bound to another origin")
  func boundToOther() throws {
    let server = try Ground().serve(Self.listed)
    let response = try server.request("/token?origin=https://app.example.com", "-H", "Origin: https://b.example")
    #expect(response.status == 403)
    #expect(response.errorCode == "origin_not_allowed")
  }

  @Test(
    "are refused with an unlisted origin",
    arguments: [
      ["-H", "Origin: https://evil.example"], ["-H", "Origin: https://app.example.com.evil.example"],
      ["-H", "Origin: http://app.example.com"], ["-H", "Origin: https://app.example.com:8443"],
      ["-H", "Origin: null"], ["-H", "Origin: https://app.example.com/"], ["-H", "Origin: https://APP.example.com"],
      ["-H", "Origin: https://b.example", "-H", "Origin: https://b.example"],
      ["-d", "{\"origin\":\"https://evil.example\"}"],
    ])
  func otherOrigin(_ options: [String]) throws {
    let server = try Ground().serve(Self.listed)
    let response = try ParsedResponse(curl: options + ["\(server.url)/token"])
    #expect(response.status == 403)
    #expect(response.errorCode == "origin_not_allowed")
    #expect(response["Access-Control-Allow-Origin"] == nil)
    #expect(response["Vary"]?.contains("Origin") == true)
  }

  @Test("get no token without the permission for tokens")
  func notPermitted() throws {
    let response = try Ground().serve(["ACCESS_ANONYMOUS": "{ catalog: true }"]).request("/token")
    #expect(response.status == 403)
    #expect(response.errorCode == "not_permitted")
  }

  @Test("may name no origin if the policy lists none")
  func emptyPolicy() throws {
    let server = try Ground().serve()
    #expect(try server.request("/token").status == 200)
    #expect(try server.request("/token?origin=https://app.example.com").errorCode == "origin_not_allowed")
    #expect(try server.request("/token", "-H", "Origin: https://app.example.com").errorCode == "origin_not_allowed")
  }

  @Test("may name any origin with --unsafe-allow-anonymous")
  func unsafeAnybody() throws {
    let server = try Ground().serve(["ACCESS_ANONYMOUS": ""], ["--unsafe-allow-anonymous"])
    #expect(try server.request("/token").json?["origin"] == nil)
    let response = try server.request("/token", "-H", "Origin: https://anything.example:8443")
    #expect(response.json?["origin"]?.strings == ["https://anything.example:8443"])
    #expect(response["Access-Control-Allow-Origin"] == "https://anything.example:8443")
  }
}
