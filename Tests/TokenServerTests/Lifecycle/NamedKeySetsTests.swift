import Access
import DeveloperToken
import TestSupport
import Testing

@testable import ServerSettings
@testable import TokenServer

@Suite("The key sets in the settings")
struct NamedKeySetsTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  /// The first example of RFC 7517 §A.1.
  private static let key =
    #"{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","#
    + #""y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","use":"sig","kid":"1"}"#

  /// A key set with one key.
  static let keySet = #"{"keys":[\#(key)]}"#

  private func file(_ text: String, _ name: String = "jwks.json") throws -> KeySetSource {
    .file(try directory.write(text, to: name))
  }

  @Test("are read from files, and each warning names the file")
  func files() async throws {
    let source = try file(#"{"keys":[\#(Self.key),{"kty":"oct","k":"AQ"}]}"#)
    let loader = FileLoader(reading: [source])
    let named = try NamedKeySets([source], files: loader.keySets, proxies: ProxyEnvironment([:]))
    let warning = "The key set \"\(directory.path)/jwks.json\": Key 2 is not used: IT IS NOT PUBLIC."
    #expect(loader.warnings.count == 1)
    #expect(loader.warnings.first?.hasPrefix(warning) == true)
    let ground = try KeySetGround()
    ground.keySets.use(ground.keySets.table(of: named))
    #expect(ground.keySets.table.present(source)?.count == 1)
    #expect(await ground.keySets.table.fresh(source)?.count == 1)
    #expect(ground.keySets.counts == KeySetCounts())
  }

  @Test("are read from files again at each reload")
  func reloaded() throws {
    let source = try file(#"{"keys":[\#(Self.key)]}"#)
    let ground = try KeySetGround()
    try ground.begin([source])
    let rsa = #"{"kty":"RSA","e":"AQAB","n":""# + String(repeating: "q", count: 341) + "w" + #""}"#
    _ = try file(#"{"keys":[\#(Self.key),\#(rsa)]}"#)
    #expect(ground.keySets.table.present(source)?.count == 1)
    try ground.use([source])
    #expect(ground.keySets.table.present(source)?.count == 2)
  }

  @Test("report all their errors together")
  func faults() throws {
    let sources: Set<KeySetSource> = [
      .file(directory.path(of: "missing.json")), try file("-----BEGIN PUBLIC KEY-----", "pem.json"),
      try file(String(repeating: " ", count: 300_000), "large.json"), .file(directory.path),
      .url("http://id.example.com/jwks.json", caFile: nil),
      .url("https://id.example.com/jwks.json", caFile: directory.path(of: "missing.pem")),
    ]
    let loader = FileLoader(reading: sources)
    let error = #expect(throws: StartError.self) {
      try NamedKeySets(sources, files: loader.keySets, proxies: ProxyEnvironment([:]))
    }
    #expect(loader.errors.count == 5)
    let sentences = (loader.errors.map(\.description) + [error?.description ?? ""]).joined(separator: " ")
    for words in [
      "the file \"\(directory.path)/missing.json\" does not exist;",
      "pem.json\" is not a usable JWK Set. The key set is PEM;",
      "large.json\" is too large;", "the file \"\(directory.path)\" is a directory;",
      "The key set's address 'http://id.example.com/jwks.json' does not begin with https://.",
      "The server has not read the key set '\(directory.path)/missing.json'.",
      "'\(directory.path)/missing.pem' cannot be read:",
      "The server has not read '\(directory.path)/missing.pem'.",
    ] {
      #expect(sentences.contains(words), "\(words) in \(sentences)")
    }
  }

  @Test("are an error behind a proxy whose HTTPS_PROXY value is invalid")
  func proxy() throws {
    let source = KeySetSource.url("https://id.example.com/", caFile: nil)
    #expect(throws: StartError.self) {
      try NamedKeySets([source], files: KeySetFiles(), proxies: ProxyEnvironment(["HTTPS_PROXY": "ftp://x"]))
    }
    _ = try NamedKeySets(
      [source], files: KeySetFiles(), proxies: ProxyEnvironment(["HTTPS_PROXY": "ftp://x", "NO_PROXY": "example.com"]))
  }

  static let addresses: [(text: String, address: String?)] = [
    ("https://id.example.com/jwks.json", "https://id.example.com/jwks.json"),
    ("HTTPS://ID.example.com:443/a?b=c&d", "https://id.example.com/a?b=c&d"),
    ("https://id.example.com", "https://id.example.com/"),
    ("https://id.example.com?p=B2C_1", "https://id.example.com/?p=B2C_1"),
    ("https://id.example.com:8443/%7Bx%7D/", "https://id.example.com:8443/%7Bx%7D/"),
    ("https://[2001:db8::1]/jwks", "https://[2001:db8::1]/jwks"),
    ("http://id.example.com/", nil), ("https:///jwks", nil), ("id.example.com/jwks", nil), ("", nil),
    ("https://user:pass@id.example.com/", nil), ("https://id.example.com/#x", nil), ("https://id.example.com/a b", nil),
    ("https://id.example.com/\r\nX: y", nil), ("https://id.example.com/é", nil), ("https://id.example.com:0/", nil),
    ("https://id.example.com:99999/", nil), ("https://id.example.com\\@evil.example/", nil),
    ("https://*.example.com/", nil), ("https://id.example.com/" + String(repeating: "x", count: 2048), nil),
  ]

  @Test("have https URLs", arguments: addresses)
  func address(_ example: (text: String, address: String?)) {
    #expect((try? ServiceURL(example.text)).map { "\($0.origin)\($0.target)" } == example.address)
  }
}
