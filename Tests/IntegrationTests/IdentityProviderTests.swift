import TestSupport
import Testing

/// Providers as they are: with replaced keys, and with forgers.
@Suite("An identity provider")
struct IdentityProviderTests {
  // MARK: Replaced keys

  @Test("that replaces a key under the same kid is trusted after one fetch, and forgeries cost one")
  func replaced() throws {
    let provider = try IdentityProvider()
    try provider.behave("max-age-86400")
    let ground = try AccessGround(provider.client())
    #expect(try ground.request("/token", key: try provider.mint()).status == 200)
    let before = try provider.mint("alg=EdDSA")
    try provider.rotate(keepsNames: true)
    let requests = try provider.requests()
    for algorithm in ["ES256", "RS256", "EdDSA"] {
      #expect(try ground.request("/token", key: try provider.mint("alg=\(algorithm)")).status == 200)
    }
    #expect(try ground.request("/token", key: before).status == 401)
    for _ in 0..<30 {
      let forged = try provider.mint("keys=unpublished&kid=es256-1")
      #expect(try ground.request("/token", key: forged).status == 401)
    }
    #expect(try provider.requests() == requests + 1)
  }

  // MARK: Forged tokens

  @Test("a forged JWT of an address with many failures is not judged, and a JWT that was valid lately is")
  func postponed() throws {
    let provider = try IdentityProvider()
    let ground = try AccessGround(provider.client())
    let known = try provider.mint(claims: #"{"sub": "known"}"#)
    #expect(try ground.request("/token", key: known).status == 200)
    let forged = try provider.mint("keys=unpublished&kid=es256-1")
    // The only fetch that it may cause: a connection without more to send would not wait for it.
    #expect(try ground.request("/token", key: forged).status == 401)
    let connection = try ground.server.connect()
    let request = "GET /token HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(forged)\r\n\r\n"
    connection.send(String(repeating: request, count: 150))
    connection.finishSending()
    let responses = try connection.receiveAll()
    #expect((99...110).contains(responses.split(separator: "HTTP/1.1 401 ").count))
    #expect(responses.contains("The server has not judged this one."))
    // The same address, immediately afterwards.
    #expect(try ground.request("/token", key: known).status == 200)
    #expect(try ground.request("/token").status == 200)
    let fresh = try provider.mint(claims: #"{"sub": "fresh"}"#)
    let refusal = try ground.request("/token", key: fresh)
    #expect(refusal.status == 429 && refusal["Retry-After"] == "1", "\(refusal.text)")
    #expect(try ground.request("/token", key: fresh, "--interface", "127.0.0.2").status == 200)
    // Now it was valid lately, whatever the address.
    #expect(try ground.request("/token", key: fresh).status == 200)
  }
}
