import Glibc
import TestSupport
import Testing

@Suite("A server with several certificates")
struct ServerNameTests {
  /// A server whose default certificate is for localhost, with one more for a name and one for a wildcard.
  private struct Names {
    let ground: Ground
    let server: RunningServer

    init(_ more: [String: String] = [:]) throws {
      ground = try Ground()
      for (file, name) in [("a", "a.example"), ("b", "*.b.example")] { try Self.issue(file, name, in: ground) }
      server = try ground.serve(
        try ground.tlsSettings().merging(["SERVER_TLS_CERTIFICATES": Self.list(ground, ["a", "b"])]) { $1 }
          .merging(more) { $1 })
    }

    static func issue(_ file: String, _ name: String, in ground: Ground, notAfter: Int = 86_400) throws {
      let certificate = try Certificate(
        name, key: KeyPair(), alternativeNames: ["DNS:\(name)"], notAfter: notAfter)
      _ = try ground.directory.write(certificate.pem, to: "\(file).crt")
      _ = try ground.directory.write(certificate.key.pem, to: "\(file).key")
    }

    static func list(_ ground: Ground, _ files: [String]) -> String {
      let pairs = files.map { file in
        let path = ground.directory.path(of: file)
        return "{ certificateFile: '\(path).crt', keyFile: '\(path).key' }"
      }
      return "[\(pairs.joined(separator: ", "))]"
    }

    /// The subject of the certificate that openssl gets for a name; nil for no name.
    func subject(_ name: String?) throws -> String? {
      let result = try run(
        "openssl",
        ["s_client", "-connect", "127.0.0.1:\(server.port)"] + (name.map { ["-servername", $0] } ?? ["-noservername"]))
      return result.stdout.firstMatch(of: /subject=CN ?= ?(\S+)/).map { String($0.output.1) }
    }
  }

  @Test("serves the certificate of the name that openssl requests, else the default")
  func openssl() throws {
    let names = try Names()
    for (requested, served) in [
      ("a.example", "a.example"), ("x.b.example", "*.b.example"), ("localhost", "localhost"), ("other", "localhost"),
      (nil, "localhost"),
    ] {
      #expect(try names.subject(requested) == served, "\(requested ?? "no name")")
    }
  }

  @Test("serves requests of clients that verify the name", arguments: ["1.2", "1.3"])
  func curl(_ version: String) throws {
    let names = try Names()
    for (host, file) in [("a.example", "a"), ("x.b.example", "b"), ("localhost", "tls")] {
      let response = try ParsedResponse(curl: [
        "--cacert", names.ground.directory.path(of: "\(file).crt"), "--resolve",
        "\(host):\(names.server.port):127.0.0.1",
        "--tlsv\(version)", "--tls-max", version, "-H", "Host: localhost", "https://\(host):\(names.server.port)/token",
      ])
      #expect(response.status == 200, "\(host)")
    }
  }

  @Test("takes replaced certificates at a reload, and has the expiry of each in the metrics")
  func reload() throws {
    let names = try Names()
    let metric = "musickit_tls_certificate_remaining_seconds"
    var page = try MetricsPage(of: names.server)
    #expect(try #require(page[metric]) > 80_000)
    #expect(try #require(page[metric, ["certificate": "*.b.example"]]) > 80_000)
    try Names.issue("a", "new.example", in: names.ground, notAfter: 4000)
    names.server.process.signal(SIGHUP)
    try names.server.process.waitForErrors("Configuration reloaded")
    try eventually("the new certificate") { try names.subject("new.example") == "new.example" }
    #expect(try names.subject("a.example") == "localhost")
    page = try MetricsPage(of: names.server)
    #expect(page[metric, ["certificate": "a.example"]] == nil)
    #expect(try #require(page[metric, ["certificate": "new.example"]]) < 4001)
    // A bad pair changes nothing.
    _ = try names.ground.directory.write("hello", to: "b.key")
    names.server.process.signal(SIGHUP)
    try names.server.process.waitForErrors("server.tls.certificates[1]")
    #expect(try names.subject("x.b.example") == "*.b.example")
  }

  @Test("check-config names every bad pair by its path")
  func check() throws {
    let ground = try Ground()
    let settings = try ground.tlsSettings()
    for file in ["a", "b", "c"] { try Names.issue(file, "\(file).example", in: ground) }
    _ = try ground.directory.write(KeyPair().pem, to: "b.key")
    let list = Names.list(ground, ["a", "b", "missing"]).dropLast() + ", { certificateFile: '/a' }]"
    var result = try ground.run(["check-config"], settings.merging(["SERVER_TLS_CERTIFICATES": String(list)]) { $1 })
    let variable = "(SERVER_TLS_CERTIFICATES)"
    #expect(result.stderr.contains("server.tls.certificates[3].keyFile \(variable): is not set"), "\(result.stderr)")
    let pairs = Names.list(ground, ["a", "b", "missing", "c"])
    result = try ground.run(["check-config"], settings.merging(["SERVER_TLS_CERTIFICATES": pairs]) { $1 })
    #expect(result.status == 78)
    #expect(result.stderr.contains("server.tls.certificates[1]: The key in '"), "\(result.stderr)")
    #expect(result.stderr.contains("server.tls.certificates[2].certificateFile: the file \""))
    #expect(result.stderr.contains("server.tls.certificates[2].keyFile: the file \""))
    #expect(!result.stderr.contains("certificates[0]") && !result.stderr.contains("certificates[3]"))
    let good = Names.list(ground, ["a", "c"])
    #expect(try ground.run(["check-config"], settings.merging(["SERVER_TLS_CERTIFICATES": good]) { $1 }).status == 0)
    result = try ground.run(["check-config"], ["SERVER_TLS_CERTIFICATES": good])
    #expect(
      result.stderr.contains("server.tls.certificates \(variable): is set, and server.tls.certificateFile is not"))
  }
}
