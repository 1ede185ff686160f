import Glibc
import JSON
import TestSupport
import Testing

@Suite("A signing key")
struct KeyFormTests {
  private static func settings(_ ground: Ground, key: String) -> [String: String] {
    var settings = ground.settings
    settings["MUSICKIT_KEY_FILE"] = nil
    settings["MUSICKIT_KEY_ID"] = Ground.keyID
    settings["MUSICKIT_KEY"] = key
    return settings
  }

  @Test("in a variable is accepted in every common form", arguments: [0, 1, 2, 3, 4, 5, 6])
  func forms(_ index: Int) throws {
    let ground = try Ground()
    let pem = ground.key.pem
    let body = pem.split(separator: "\n").filter { !$0.hasPrefix("-") }
    let form = [
      pem, pem.replacing("\n", with: "\\n"), pem.replacing("\n", with: "\r\n"), "\"\(pem)\"",
      pem.replacing("\n", with: " "),
      body.joined(), "\u{FEFF}\(pem)",
    ][index]
    let server = try RunningServer([], environment: Self.settings(ground, key: form))
    let token = try CompactToken(try #require(try server.request("/token").token))
    let result = try run(
      "openssl",
      [
        "dgst", "-sha256", "-verify", try ground.publicKeyFile(), "-signature",
        try ground.directory.write(token.derSignature, to: "signature"),
        try ground.directory.write(token.signedBytes, to: "signed"),
      ])
    #expect(result.status == 0)
  }

  @Test("of a wrong kind prevents the start, and the error names the kind")
  func wrongKinds() throws {
    let ground = try Ground()
    let token = try ground.serve().request("/token", "-H", "Accept: text/plain").text
    for (contents, name) in [
      (try Certificate(key: ground.key).pem, "a certificate"), (ground.key.publicPEM, "a public key"),
      (try KeyPair(.rsa(2048)).pem, "RSA"), (try KeyPair(.p384).pem, "384"),
      (ground.key.encryptedPEM(passphrase: "x"), "encrypted"), (String(ground.key.pem.prefix(120)), "truncated"),
      (token, "token"), ("", "empty"), ("hello", "not a private key"),
    ] {
      try ground.directory.write(contents, to: "AuthKey_\(Ground.keyID).p8")
      let result = try ground.run(["serve"])
      #expect(result.status == 78, "\(name)")
      #expect(result.stderr.contains(name), "\(name): \(result.stderr)")
      #expect(result.stderr.split(separator: "\n").count == 1)
    }
  }

  @Test("with a wrong path prevents the start, and the error gives the reason")
  func wrongPlaces() throws {
    let ground = try Ground()
    let settings = ["MUSICKIT_KEY_ID": Ground.keyID]
    let directory = try ground.run([], settings.merging(["MUSICKIT_KEY_FILE": ground.directory.path]) { $1 })
    #expect(directory.status == 78 && directory.stderr.contains("is a directory"))
    let missing = try ground.run([], settings.merging(["MUSICKIT_KEY_FILE": "/nonexistent.p8"]) { $1 })
    #expect(missing.status == 78 && missing.stderr.contains("does not exist"))
  }

  @Test("with another ID than in its file name is refused")
  func mismatch() throws {
    let result = try Ground().run([], ["MUSICKIT_KEY_ID": "ZZZ1234567"])
    #expect(result.status == 78)
    #expect(result.stderr.contains("ZZZ1234567") && result.stderr.contains(Ground.keyID))
  }

  @Test("that others can write is refused", arguments: [0o620, 0o602, 0o666] as [mode_t])
  func writable(_ mode: mode_t) throws {
    let ground = try Ground()
    #expect(unsafe chmod(ground.keyFile, mode) == 0)
    let result = try ground.run(["serve"])
    #expect(result.status == 78)
    #expect(result.stderr.contains("chmod 600"))
  }

  @Test("that others can read is accepted with a warning")
  func readable() throws {
    let ground = try Ground()
    #expect(unsafe chmod(ground.keyFile, 0o644) == 0)
    let server = try ground.serve()
    #expect(try server.request("/token").status == 200)
    server.stop()
    #expect(
      server.logLines.contains { $0?["level"]?.string == "warning" && $0?["message"]?.string?.contains("read") == true }
    )
  }
}
