import Bytes
import JSON
import TestSupport
import Testing

/// The attacks of RFC 8725 §2 and similar attacks.
@Suite("A forged JWT")
struct AccessJWTAttackTests {
  /// One attack: the query for `jwks_provider.py`, and the reason in the audit log.
  struct Attack: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let query: String
    let claims: String
    let reason: String

    init(_ label: String, _ query: String, _ reason: String, claims: String = "{}") {
      (testDescription, self.query, self.claims, self.reason) = (label, query, claims, reason)
    }
  }

  static let attacks: [Attack] = [
    Attack("without a signature", "alg=none", "jwt_unsupported_algorithm"),
    Attack("without a signature, by a name of ours", "alg=none&kid=", "jwt_unsupported_algorithm"),
    Attack("with a public key as the secret", "alg=HS256", "jwt_unsupported_algorithm"),
    Attack("with a public key as the secret of RSA's", "alg=HS256&kid=rs256-1", "jwt_unsupported_algorithm"),
    Attack("that brings its key along", "keys=unpublished&kid=es256-1&embed=1", "jwt_key_in_header"),
    Attack("that brings its certificate along", "header={\"x5c\":[\"MIIB\"]}", "jwt_key_in_header"),
    Attack("with a critical extension", "header={\"crit\":[\"exp\"]}", "jwt_critical_header"),
    Attack("with an unencoded payload", "header={\"b64\":false,\"crit\":[\"b64\"]}", "jwt_critical_header"),
    Attack("of another type", "header={\"typ\":\"dpop%2Bjwt\"}", "jwt_wrong_type"),
    Attack("by RSA that names an EC key", "alg=RS256&kid=es256-1", "jwt_key_mismatch"),
    Attack("by PSS that names the key of PKCS #1", "alg=PS256&kid=rs256-1", "jwt_key_mismatch"),
    Attack("by another's key of the same name", "keys=unpublished&kid=es256-1", "jwt_bad_signature"),
    Attack("that names a file for its key", "kid=../../../../dev/null", "jwt_unknown_key"),
    Attack("that names a query for its key", "kid='+UNION+SELECT+'x", "jwt_unknown_key"),
    Attack("that has expired", "", "jwt_expired", claims: "{\"exp\": 1000}"),
    Attack("that never expires", "", "jwt_no_expiry", claims: "{\"exp\": null}"),
    Attack("that expires as a text", "", "jwt_invalid_claim", claims: "{\"exp\": \"4000000000\"}"),
    Attack("of another issuer", "", "jwt_unknown_issuer", claims: "{\"iss\": \"https://evil.example/\"}"),
    Attack("for another service", "", "jwt_wrong_audience", claims: "{\"aud\": \"music.evil.example\"}"),
  ]

  @Test("is refused, and the audit log gives the reason")
  func refused() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround(provider.client())
    // The keys are present, so that no attack fails because of missing keys.
    #expect(try ground.request("/token", key: try provider.mint()).status == 200)
    for attack in Self.attacks {
      let token = try provider.mint(attack.query, claims: attack.claims)
      let response = try ground.request("/token", key: token)
      #expect(response.status == 401, "\(attack): \(response.text)")
      #expect(response.errorCode == "invalid_credentials", "\(attack)")
      #expect(response["WWW-Authenticate"]?.contains("error=\"invalid_token\"") == true, "\(attack)")
      #expect(response.token == nil, "\(attack)")
      #expect(try ground.request(AccessGround.album, key: token).status == 401, "\(attack)")
    }
    ground.server.stop()
    let reasons = ground.auditLines.dropFirst().map(\.reason)
    #expect(reasons == Self.attacks.flatMap { [$0.reason, $0.reason] })
    #expect(ground.auditLines.dropFirst().allSatisfy { $0.outcome == "refused" && $0.client == "-" })
    #expect(!ground.server.log.contains("eyJ"))
  }

  @Test("with the URL of its key causes no request to this URL", arguments: ["jku", "x5u"])
  func address(member: String) throws {
    let provider = try IdentityProvider()
    let forger = try IdentityProvider()
    let ground = try AccessGround(provider.client())
    let token = try forger.mint("header={\"\(member)\":\"\(forger.url)\"}")
    #expect(try ground.request("/token", key: token).status == 401)
    #expect(try ground.request("/token", key: try forger.mint()).status == 401)
    ground.server.stop()
    #expect(ground.auditLines.map(\.reason) == ["jwt_key_in_header", "jwt_bad_signature"])
    #expect(try forger.requests() == 0)
  }

  @Test("with any changed part is refused")
  func changed() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround(provider.client())
    let parts = try provider.mint().split(separator: ".").map(String.init)
    let other = try provider.mint(claims: "{\"sub\": \"somebody else\"}").split(separator: ".").map(String.init)
    for token in [
      "\(parts[0]).\(other[1]).\(parts[2])", "\(parts[0]).\(parts[1]).\(other[2])", "\(parts[0]).\(parts[1]).",
      "\(parts[0]).\(parts[1])", "\(parts.joined(separator: ".")).", "\(parts.joined(separator: "."))=",
      "\(parts[0]).\(parts[1]).\(String(repeating: "A", count: 86))",
    ] {
      #expect(try ground.request("/token", key: token).status == 401, "\(token)")
    }
    #expect(try ground.request("/token", key: parts.joined(separator: ".")).status == 200)
  }

  @Test("with an unknown key, sent a thousand times, causes one request to the provider")
  func flood() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround(provider.client(), ["SERVER_LOOPS": "2"])
    let good = try provider.mint()
    #expect(try ground.request("/token", key: good).status == 200)
    let requests = try provider.requests()
    #expect(requests == 1, "\(ground.server.log)")
    let rest = good.split(separator: ".").dropFirst().joined(separator: ".")
    let connections = try (0..<4).map { _ in try ground.server.connect() }
    for (index, connection) in connections.enumerated() {
      for number in 0..<250 {
        let header = Base64URL.encode(Array("{\"alg\":\"ES256\",\"kid\":\"made-up-\(index)-\(number)\"}".utf8))
        let last = number == 249 ? "Connection: close\r\n" : ""
        connection.send("HEAD /token HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(header).\(rest)\r\n\(last)\r\n")
      }
    }
    for connection in connections {
      let responses = try connection.receiveAll()
      #expect(responses.split(separator: "HTTP/1.1 ").count == 250)
      #expect(!responses.contains("HTTP/1.1 200"))
    }
    // The first unknown key causes a fetch. The next fetch comes half a minute later at the earliest.
    #expect(try provider.requests() == 2)
    #expect(try ground.request("/token", key: good).status == 200)
    ground.server.stop()
    // Many refusals of one address are summed up, so only the first hundred a second have a line each.
    let failed = ground.auditLines.filter { $0.outcome != "granted" && $0.reason != nil }
    #expect(failed.count >= 100)
    #expect(Set(failed.map { $0.reason ?? "" }).isSubset(of: ["jwt_unknown_key", "failed_attempts"]))
  }

  @Test("a client with origins needs both a JWT and an allowed origin")
  func page() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround(provider.client("members", "origins: [\"https://members.example.com\"]"))
    let token = try provider.mint()
    func respond(_ token: String?, _ origin: String?) throws -> ParsedResponse {
      let options = origin.map { ["-H", "Origin: \($0)"] } ?? []
      let credential = token.map { ["-H", "Authorization: Bearer \($0)"] } ?? []
      return try ParsedResponse(curl: options + credential + ["\(ground.server.url)/token"])
    }
    let both = try respond(token, "https://members.example.com")
    #expect(both.status == 200)
    #expect(both.json?["origin"] == .array([.string("https://members.example.com")]))
    #expect(both["Access-Control-Allow-Origin"] == "https://members.example.com")
    #expect(try respond(token, nil).errorCode == "missing_credentials")
    #expect(try respond(nil, "https://members.example.com").errorCode == "missing_credentials")
    // An origin of another client, and an unlisted origin.
    #expect(try respond(token, "https://app.example.com").errorCode == "origin_not_allowed")
    #expect(try respond(token, "https://evil.example").errorCode == "origin_not_allowed")
    let forged = try respond(try provider.mint("alg=none"), "https://members.example.com")
    #expect(forged.status == 401)
    #expect(forged["Access-Control-Allow-Origin"] == "https://members.example.com")
    ground.server.stop()
    #expect(
      ground.auditLines.map(\.reason) == [
        nil, "no_origin", "no_credential", "origin_not_allowed", "origin_not_allowed", "jwt_unsupported_algorithm",
      ])
  }
}
