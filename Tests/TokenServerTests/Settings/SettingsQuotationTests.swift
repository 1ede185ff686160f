import Testing

@testable import ServerSettings

@Suite("The text of an error in the settings")
struct SettingsQuotationTests {
  @Test(
    "never quotes key material, in whichever setting it was pasted",
    arguments: [
      "musickit.key", "musickit.keyFile",
      "musickit.keyID", "musickit.teamID", "server.host", "token.ttl", "log.level", "server.trustedProxies",
    ])
  func secrets(_ path: String) throws {
    let body = "MIGTAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBHkwdwIBAQQg" + String(repeating: "A1b2", count: 30)
    for key in ["-----BEGIN PRIVATE KEY-----\\n\(body)\\n-----END PRIVATE KEY-----", body] {
      let parts = path.split(separator: ".")
      for value in ["\"\(key)\"", "[\"\(key)\"]"] {
        let errors = try SettingsFixture.errors("{ \(parts[0]): { \(parts[1]): \(value) } }")
        #expect(!errors.isEmpty)
        #expect(errors.allSatisfy { !$0.contains("MIGT") && !$0.contains("A1b2") && !$0.contains("BEGIN") })
      }
      let name = variableName(of: path)
      let errors = try SettingsFixture.errors("{}", [name: key.replacing("\\n", with: "\n")])
      #expect(errors.allSatisfy { !$0.contains("MIGT") && !$0.contains("A1b2") && !$0.contains("BEGIN") })
    }
  }

  @Test("never quotes one line of a key, in whichever setting or path it was pasted")
  func lines() throws {
    let lines = [
      "MIGTAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBHkwdwIBAQQgevZzL1gdAFr88hb2",
      "/Tr3YlZ0mHOlaI5jvOJi9vlv6EeGbYcQpQGTXcaDqVtLqXGF+3nkQCX8mXhqB0/w",
      "OF/2NxApJCzGCEDdfSp6VQO30hyhRANCAAQRWz+jn65BtOMvdyHKcvjBeBSDZH2r",
    ]
    for line in lines {
      for path in Settings.known.map(\.path) {
        let errors = try SettingsFixture.errors("{}", [variableName(of: path): line])
        #expect(errors.allSatisfy { !$0.contains(line.prefix(16)) && !$0.contains(line.suffix(16)) }, "\(errors)")
      }
      #expect(!quotedPath(line).contains(line.suffix(16)) && !quotedPath("keys/\(line)").contains(line.suffix(16)))
      #expect(looksLikeKey(line) != line.hasPrefix("/"))
    }
    for word in ["0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a6978", "secrets/production/MusicKit/AuthKeyOfTheServer"] {
      #expect(isQuotable(word) && !looksLikeKey(word))
    }
  }

  @Test(
    "never quotes the user and password of a URL, in whichever setting it was pasted",
    arguments: Settings.known.map(\.path).filter { $0 != "musickit.keys" && $0 != "access.clients" })
  func credentials(_ path: String) throws {
    func judge(_ errors: [String]) {
      #expect(!errors.isEmpty && errors.allSatisfy { !$0.contains("hunter2") }, "\(errors)")
    }
    for url in [
      "https://user:hunter2@a.example", "https://hunter2@a.example/", "user:hunter2@a.example:80",
      "http://user:hunter2@a.example/path?x#y", "https://user:hunter2@*.a.example", "ftp://user:hunter2@a.example",
      "https://user:hunter2@a.example:99999", "https://us er:hunter2@a.example", "https://a.example/?hunter2",
    ] {
      judge(try SettingsFixture.errors("{}", flags: [path: url]))
    }
    // All ways to set a value end in the same reader.
    let url = "https://user:hunter2@a.example"
    judge(try SettingsFixture.errors("{}", flags: [path: "['\(url)']"]))
    judge(try SettingsFixture.errors("{}", [variableName(of: path): url]))
  }

  @Test("names a long path in full, and quotes no other long text")
  func longPaths() {
    let path = "/var/lib/musickit-token-server/" + [String](repeating: "folder", count: 20).joined(separator: "/")
    #expect(quotedPath(path) == "\"\(path)\"")
    let text = String(repeating: "A1b2", count: 20)
    for value in ["/\(text)", text, "/etc/\(text)/x", "\(path)/PRIVATE"] {
      #expect(!quotedPath(value).contains("A1b2A1b2") && !quotedPath(value).contains("PRIVATE"), "\(value)")
    }
  }

  @Test("says what is wrong with a URL that has credentials")
  func credentialsOfUpstream() throws {
    let errors = try SettingsFixture.errors(
      "{ \(SettingsFixture.minimal), catalog: { upstream: 'https://user:hunter2@a.example' } }")
    #expect(errors == ["catalog.upstream: The origin (30 bytes) has user information, which is no part of an origin."])
  }
}
