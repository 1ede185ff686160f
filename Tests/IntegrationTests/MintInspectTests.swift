import JSON
import TestSupport
import Testing

@Suite("mint and inspect")
struct MintInspectTests {
  private static func mint(_ ground: Ground, _ more: [String] = []) throws -> ProcessResult {
    try Program.run(["mint", "--key-file", ground.keyFile, "--team-id", Ground.teamID] + more)
  }

  @Test("mint prints only a token")
  func mintsOnly() throws {
    let ground = try Ground()
    let result = try Self.mint(ground)
    #expect(result.status == 0)
    #expect(result.stderr.isEmpty)
    #expect(result.stdout.hasSuffix("\n"))
    #expect(try CompactToken(String(result.stdout.dropLast())).claims["iss"]?.string == Ground.teamID)
  }

  @Test("inspect accepts a minted token, through a pipe and as an argument, with and without the key")
  func pipeline() throws {
    let ground = try Ground()
    let minted = try Self.mint(ground, ["--ttl", "30d", "--origin", "https://app.example.com"])
    let origin = ["--origin", "https://app.example.com"]
    #expect(try Program.run(["inspect"] + origin, input: minted.stdout).status == 0)
    #expect(try Program.run(["inspect", String(minted.stdout.dropLast())] + origin).status == 0)
    let withKey = try Program.run(["inspect", "--key-file", ground.keyFile] + origin, input: minted.stdout)
    #expect(withKey.status == 0, "\(withKey.stdout)\(withKey.stderr)")
    #expect(withKey.stdout.contains("https://app.example.com"))
  }

  @Test("inspect accepts a token of the server")
  func served() throws {
    let ground = try Ground()
    let token = try ground.serve().request("/token", "-H", "Accept: text/plain").text
    let result = try Program.run(["inspect", "--key-file", ground.keyFile, "--json"], input: token)
    #expect(result.status == 0)
    #expect(JSONReader.read(result.standardOutput)?["acceptable"] == .bool(true))
  }

  @Test("inspect ends with status 1 for a token that Apple would refuse")
  func refused() throws {
    let ground = try Ground()
    let token = String(try Self.mint(ground).stdout.dropLast())
    let otherKey = try ground.directory.write(try KeyPair().pem, to: "other.p8")
    for (label, arguments) in [
      ("cut off", [String(token.dropLast(4))]), ("no token", ["nonsense"]), ("empty", [""]),
      ("another's signature", [token, "--key-file", otherKey]),
    ] {
      let result = try Program.run(["inspect"] + arguments)
      #expect(result.status == 1, "\(label): \(result.stderr)")
      #expect(result.stdout.contains("Apple would refuse it"), "\(label)")
    }
  }

  @Test("inspect ends with status 1 for a token without the page's origin")
  func otherOrigin() throws {
    let token = try Self.mint(try Ground(), ["--origin", "https://app.example.com"]).stdout
    #expect(try Program.run(["inspect", "--origin", "https://evil.example"], input: token).status == 1)
  }
}
