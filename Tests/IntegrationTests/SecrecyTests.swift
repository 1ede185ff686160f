import JSON
import TestSupport
import Testing

@Suite("The output of the program")
struct SecrecyTests {
  /// The number of consecutive bytes of a key that count as a leak.
  private static let window = 16

  @Test("contains no token, query, credential or part of a key, even at level trace", arguments: ["json", "text"])
  func busyServer(_ format: String) throws {
    let ground = try Ground()
    let settings = ["LOG_FORMAT": format, "LOG_LEVEL": "trace"].merging(try ground.tlsSettings()) { $1 }
    let server = try ground.serve(settings, ["--unsafe-allow-anonymous"])
    var tokens: [CompactToken] = []
    for query in ["", "?ttl=3601", "?origin=https://in-the-record.example", "?query-canary=1", "?ttl=query-canary"] {
      let options = ["-k", "-H", "Authorization: Bearer credential-canary", "-H", "X-API-Key: credential-canary"]
      let json = try ParsedResponse(curl: options + ["-H", "Cookie: credential-canary", "\(server.url)/token\(query)"])
      if let token = json.token { tokens.append(try CompactToken(token)) }
    }
    for options in [["-d", "{\"query-canary\":1}"], ["-X", "PUT"], ["-I"], ["-H", "Accept: text/plain"]] {
      _ = try ParsedResponse(curl: ["-k"] + options + ["\(server.url)/token?ttl=3601"])
      _ = try ParsedResponse(curl: ["-k"] + options + ["\(server.url)/query-canary"])
    }
    let plain = try server.connect()
    plain.send("GET /token?query-canary HTTP/1.1\r\nHost: query-canary\r\n\r\n")
    _ = try plain.receiveAll()
    #expect(server.stop() == 0)

    let written = server.log + String(decoding: server.process.standardOutput, as: UTF8.self)
    #expect(tokens.count == 3)
    #expect(written.contains("/token"), "there is a log")
    for token in tokens {
      #expect(!written.contains(token.signatureText))
      #expect(!written.contains(token.signedBytes))
    }
    for canary in ["query-canary", "credential-canary", "ttl="] { #expect(!written.contains(canary)) }
    // Not within a request ID or a token digest, where any four digits may occur.
    #expect(!written.contains(/(^|[^0-9a-f])3601([^0-9a-f]|$)/))
    #expect(try !Self.leaks(ground.key.pem, in: written))
    #expect(try !Self.leaks(TextFile.read(ground.directory.path(of: "tls.key")), in: written))
  }

  @Test("about a refused key contains no part of the key")
  func refusedKeys() throws {
    let ground = try Ground()
    let pem = ground.key.pem
    let body = pem.split(separator: "\n").filter { !$0.hasPrefix("-") }.joined()
    for (variable, value) in [
      ("MUSICKIT_KEY", String(pem.prefix(150))), ("MUSICKIT_KEY_FILE", body), ("MUSICKIT_KEY_FILE", pem),
      ("MUSICKIT_TEAM_ID", body), ("MUSICKIT_KEY_ID", pem), ("ACCESS_ANONYMOUS", pem), ("SERVER_PORT", body),
      ("MUSICKIT_CONFIG", body),
    ] {
      var environment = ground.settings
      if variable == "MUSICKIT_KEY" {
        environment["MUSICKIT_KEY_FILE"] = nil
        environment["MUSICKIT_KEY_ID"] = Ground.keyID
      }
      environment[variable] = value
      for command in ["serve", "check-config"] {
        let result = try Program.run([command], environment: environment)
        #expect(result.status == 78, "\(variable)")
        #expect(
          try !Self.leaks(pem, in: result.stdout + result.stderr), "\(command) with \(variable): \(result.stderr)")
      }
    }
  }

  @Test("about a key in place of a flag's value contains no part of the key")
  func misplacedFlags() throws {
    let ground = try Ground()
    let body = ground.key.pem.split(separator: "\n").filter { !$0.hasPrefix("-") }.joined()
    let mint = ["mint", "--team-id", Ground.teamID, "--key-file"]
    for arguments in [
      mint + [body], mint + [ground.key.pem], mint + [ground.keyFile, "--key-id", body],
      mint + [ground.keyFile, "--ttl", body], mint + [ground.keyFile, "--origin", body], ["inspect", body],
      ["inspect", "--key-file", body, "x"], ["inspect", "--origin", body, "x"], ["healthcheck", "--url", body],
      ["serve", "--config", body], ["serve", "--port", body], ["serve", "--set", "\(body)=1"],
      ["serve", "--set", "musickit.key=\(body)"], ["serve", "--unix-socket", body],
      ["doctor", "--user-token", body], ["doctor", "--user-token=\(body)"], ["doctor", "--origin", body],
      [body], [ground.key.pem], ["--\(body)"], ["demo", "--port", body], ["serve", body],
    ] {
      let result = try Program.run(arguments)
      #expect(result.status != 0)
      #expect(
        try !Self.leaks(ground.key.pem, in: result.stdout + result.stderr), "\(arguments.first ?? ""): \(result.stderr)"
      )
    }
  }

  /// Whether `text` contains a window of the key, as base64 or as hexadecimal digits of its private scalar.
  static func leaks(_ pem: String, in text: String) throws -> Bool {
    let body = pem.split(separator: "\n").filter { !$0.hasPrefix("-") }.joined()
    // PKCS #8 of a P-256 key contains the scalar's 32 bytes from the 36th byte on (RFC 5208, RFC 5915).
    let url = body.map { $0 == "+" ? "-" : $0 == "/" ? "_" : $0 }.filter { $0 != "=" }
    let scalar = try Base64URL.decode(String(url)).dropFirst(36).prefix(32)
    let digits = scalar.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    // The first 48 characters are the version and the algorithm, which every key has in common.
    let secret = [String(body.dropFirst(48)), String(url.dropFirst(48)), digits, digits.uppercased()]
    return !secret.reduce(into: Set()) { $0.formUnion(windows($1)) }.isDisjoint(with: windows(text))
  }

  private static func windows(_ text: String) -> Set<[UInt8]> {
    let bytes = Array(text.utf8)
    guard bytes.count >= window else { return [] }
    return Set((0...bytes.count - window).map { Array(bytes[$0..<$0 + window]) })
  }

  @Test("the search for leaks finds a leak")
  func searchWorks() throws {
    let pem = try KeyPair().pem
    let line = pem.split(separator: "\n")[1]
    #expect(try Self.leaks(pem, in: "key=\(line.dropFirst(48).prefix(16))"))
    #expect(try !Self.leaks(pem, in: KeyPair().pem))
  }
}
