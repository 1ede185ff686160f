import JSON
import TestSupport
import Testing

@Suite("A served token")
struct TokenVerificationTests {
  @Test("verifies with openssl dgst and the public key")
  func openssl() throws {
    let ground = try Ground()
    let token = try CompactToken(try #require(try ground.serve().request("/token").token))
    let signature = try ground.directory.write(token.derSignature, to: "signature.der")
    let signed = try ground.directory.write(token.signedBytes, to: "signed")
    let result = try run(
      "openssl", ["dgst", "-sha256", "-verify", try ground.publicKeyFile(), "-signature", signature, signed])
    #expect(result.status == 0)
    #expect(result.stdout.contains("Verified OK"))
  }

  @Test("verifies with PyJWT and has exactly Apple's claims")
  func pyJWT() throws {
    let ground = try Ground()
    let json = try #require(try ground.serve().request("/token").json)
    let token = try #require(json["token"]?.string)
    let issuedAt = try #require(json["issuedAt"]?.integer)
    let expiresAt = try #require(json["expiresAt"]?.integer)
    let line = "\(token) {\"iss\":\"\(Ground.teamID)\",\"iat\":\(issuedAt),\"exp\":\(expiresAt)}\n"
    let result = try run(
      Repository.python,
      [
        Repository.script("verify_tokens.py"), try ground.publicKeyFile(),
        try ground.directory.write(line, to: "tokens"),
      ])
    #expect(result.status == 0, "\(result.stderr)")
  }

  @Test("of the demo verifies with the printed public key")
  func demo() throws {
    let server = try RunningServer(["demo", "--port", "0"], environment: [:])
    let token = try CompactToken(try #require(try server.request("/token").token))
    server.stop()
    let output = String(decoding: server.process.standardOutput, as: UTF8.self).split(separator: "\n")
    let pem = output.drop { !$0.contains("BEGIN PUBLIC KEY") }.prefix { !$0.isEmpty }.joined(separator: "\n") + "\n"
    let directory = try TemporaryDirectory()
    let result = try run(
      "openssl",
      [
        "dgst", "-sha256", "-verify", try directory.write(pem, to: "public.pem"), "-signature",
        try directory.write(token.derSignature, to: "signature.der"),
        try directory.write(token.signedBytes, to: "signed"),
      ])
    #expect(result.stdout.contains("Verified OK"), "\(result.stderr)")
  }

  @Test("has the header that Apple requires")
  func header() throws {
    let token = try CompactToken(try #require(try Ground().serve().request("/token").token))
    #expect(token.header.names == ["alg", "kid", "typ"])
    #expect(token.header["alg"]?.string == "ES256")
    #expect(token.header["kid"]?.string == Ground.keyID)
    #expect(token.signature.count == 64)
    #expect(token.claims.names == ["exp", "iat", "iss"])
  }

  @Test("has its origins as an array of strings")
  func origin() throws {
    let server = try Ground().serve([:], ["--unsafe-allow-anonymous"])
    let token = try CompactToken(try #require(try server.request("/token?origin=https://app.example.com").token))
    #expect(token.claims.names == ["exp", "iat", "iss", "origin"])
    #expect(token.claims["origin"]?.strings == ["https://app.example.com"])
  }
}
