import DeveloperToken
import Glibc
import TestSupport
import Testing

@testable import Commands
@testable import ServerSettings
@testable import TokenServer

@Suite("The files in the settings")
struct LoadedFilesTests {
  private let directory: TemporaryDirectory
  private let input: SettingsInput
  private let names: Set<String>

  init() throws {
    directory = try TemporaryDirectory()
    let key = try KeyFixture()
    let certificate = try Certificate(key: KeyPair())
    let authority = try Certificate("CA", key: KeyPair(), isAuthority: true)
    let texts = [
      "AuthKey_ABC1234567.p8": String(decoding: try SmallFile.read(key.path, atMost: 4096), as: UTF8.self),
      "tls.crt": certificate.pem, "tls.key": certificate.key.pem, "clients.pem": authority.pem,
      "upstream.pem": authority.pem, "provider.pem": authority.pem, "jwks.json": NamedKeySetsTests.keySet,
    ]
    for (name, text) in texts {
      let path = try directory.write(text, to: name)
      try #require(unsafe chmod(path, 0o600) == 0)
    }
    names = Set(texts.keys)
    let path = directory.path
    // Two clients name each of the two files.
    let clients = (1...4).map { index in
      let source =
        index % 2 == 0
        ? "jwksFile: '\(path)/jwks.json'" : "jwksURL: 'https://a.example/', caFile: '\(path)/provider.pem'"
      return "{ id: 'c\(index)', jwt: { issuer: 'i', audience: 'a\(index)', \(source) } }"
    }
    input = SettingsInput(
      environment: [
        "MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_FILE": "\(path)/AuthKey_ABC1234567.p8",
        "SERVER_TLS_CERTIFICATE_FILE": "\(path)/tls.crt", "SERVER_TLS_KEY_FILE": "\(path)/tls.key",
        "SERVER_TLS_CLIENT_CA_FILE": "\(path)/clients.pem", "CATALOG_CA_FILE": "\(path)/upstream.pem",
        "ACCESS_CLIENTS": "[\(clients.joined(separator: ", "))]",
      ], host: SettingsFixture.host)
    withExtendedLifetime(key) {}
  }

  @Test("are each opened once by check-config")
  func check() throws {
    let opens = try FileOpens(in: directory)
    let result = CheckConfigCommand.result(input)
    #expect(result.status == .good, "\(result.diagnostics)")
    #expect(opens.take() == Dictionary(uniqueKeysWithValues: names.map { ($0, 1) }))
  }

  @Test("of server.tls are required: a snapshot without their contents is an error")
  func tls() throws {
    let loaded = try Settings.load(input)
    let key = try SigningKey.generate(keyID: try KeyID("ABC1234567"))
    let source = try RuntimeSnapshot.Source(
      settings: loaded.settings, key: key, warnings: [], proxies: loaded.draft.proxies)
    let error = #expect(throws: StartError.self) { try GenerationFixture.make(source) }
    #expect(error?.description == "The server has not read the files of server.tls.")
  }

  @Test("are each opened once by a start and once by a reload, and are all watched")
  func startAndReload() throws {
    let opens = try FileOpens(in: directory)
    let first = try GenerationFixture.make(RuntimeSnapshot.Source(Settings.load(input)))
    #expect(opens.take() == Dictionary(uniqueKeysWithValues: names.map { ($0, 1) }))
    let source = try RuntimeSnapshot.Source(Settings.load(input), replacing: first)
    _ = try GenerationFixture.make(source, replacing: first)
    #expect(opens.take() == Dictionary(uniqueKeysWithValues: names.map { ($0, 1) }))
    #expect(Set(source.paths) == Set(names.map { directory.path(of: $0) }))
  }
}
