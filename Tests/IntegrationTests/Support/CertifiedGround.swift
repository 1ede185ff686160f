import TestSupport

/// A server with TLS that requests certificates of an authority, the Apple Music emulator as its upstream, and the
/// certificate files of the clients.
final class CertifiedGround {
  let files: Ground
  let catalog: CatalogGround
  let authority: Certificate
  var server: RunningServer { catalog.server }

  /// Starts the server with these settings in addition to its own.
  init(_ settings: [String: String]) throws {
    files = try Ground()
    authority = try Certificate("CA", key: KeyPair(), isAuthority: true)
    let authorityFile = try files.directory.write(authority.pem, to: "client-ca.pem")
    let own = try files.tlsSettings().merging(["SERVER_TLS_CLIENT_CA_FILE": authorityFile, "ACCESS_ANONYMOUS": ""]) {
      $1
    }
    catalog = try CatalogGround(own.merging(settings) { $1 })
  }

  /// Writes a certificate with these names, in OpenSSL's notation, and its key.
  func issue(
    _ file: String, _ alternativeNames: [String], commonName: String = "somebody", by other: Certificate? = nil
  ) throws {
    let certificate = try Certificate(
      commonName, key: KeyPair(), issuer: other ?? authority, alternativeNames: alternativeNames)
    _ = try files.directory.write(certificate.pem + certificate.key.pem, to: "\(file).pem")
  }

  /// The options by which curl trusts the server and sends the certificate of a file; no certificate for nil.
  func options(as file: String?) -> [String] {
    let trust = ["--cacert", files.certificateFile]
    return file.map { trust + ["--cert", files.directory.path(of: "\($0).pem")] } ?? trust
  }

  /// A request by curl.
  func request(_ target: String, as file: String?, _ options: [String] = []) throws -> ParsedResponse {
    try ParsedResponse(curl: self.options(as: file) + options + ["\(server.url)\(target)"])
  }
}
