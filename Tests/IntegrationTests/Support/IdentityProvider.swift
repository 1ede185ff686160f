import JSON
import TestSupport

/// An identity provider with HTTPS. PyJWT makes its tokens.
final class IdentityProvider {
  /// The URL of the key set.
  let url: String
  /// An issuer without a path, whose discovery document the provider has. It ends in a slash.
  var issuer: String { "\(origin)/" }
  /// The address of the provider: scheme, host and port.
  let origin: String
  /// The file with the certificate that a client must trust.
  let certificateFile: String
  private let adminURL: String
  private let directory: TemporaryDirectory
  private let process: ChildProcess

  init() throws {
    directory = try TemporaryDirectory()
    let certificate = try Certificate(key: try KeyPair())
    certificateFile = try directory.write(certificate.pem, to: "provider.crt")
    let keyFile = try directory.write(certificate.key.pem, to: "provider.key")
    process = try ChildProcess(Repository.python, [Repository.script("jwks_provider.py"), certificateFile, keyFile])
    guard let first = try process.line(), let second = try process.line() else {
      throw TestFailure("The provider ended: \(process.standardError)")
    }
    origin = String(first.dropFirst("Listening on ".count))
    url = "\(origin)/jwks.json"
    adminURL = String(second.dropFirst("Admin on ".count))
  }

  deinit { process.signal(9) }

  /// A client with JWTs of this provider.
  func client(_ id: String = "members", _ more: String = "") -> String {
    """
    { id: "\(id)", catalog: true, jwt: { issuer: "https://id.example.com/", audience: "music", jwksURL: "\(url)",
      caFile: "\(certificateFile)" }, \(more) }
    """
  }

  /// A client with JWTs of an issuer whose keys the server discovers.
  func discoveringClient(_ issuer: String, _ id: String = "members") -> String {
    "{ id: \"\(id)\", jwt: { issuer: \"\(issuer)\", audience: \"music\", caFile: \"\(certificateFile)\" } }"
  }

  /// Sets the provider's behaviour for all later requests.
  func behave(_ behaviour: String) throws { _ = try ask("PUT", "/?do=\(behaviour)") }

  /// Lets the provider answer the requests in flight.
  func release() throws { _ = try ask("POST", "/release") }

  /// Waits until the provider holds a request.
  func waitUntilHolding() throws {
    try eventually("it holds a request") { try ask("GET", "/").contains("\"held\": 1") }
  }

  /// The number of requests for the key set.
  func requests() throws -> Int {
    JSONReader.read(Array(try ask("GET", "/").utf8))?["requests"]?.integer ?? -1
  }

  /// Rotates the provider's keys.
  ///
  /// - Parameter keepsNames: Whether the new keys have the `kid` of the old ones.
  func rotate(keepsNames: Bool = false) throws { _ = try ask("POST", "/rotate\(keepsNames ? "?same=1" : "")") }

  /// A token signed with a key of the provider, with some claims in place of the usual ones.
  func mint(_ query: String = "", claims: String = "{}") throws -> String {
    try ask("POST", "/mint?\(query)", "-d", claims)
  }

  /// The key set.
  func keySet() throws -> String { try ParsedResponse(curl: ["--cacert", certificateFile, url]).text }

  private func ask(_ method: String, _ target: String, _ options: String...) throws -> String {
    let response = try ParsedResponse(curl: ["-X", method] + options + ["\(adminURL)\(target)"])
    guard response.status == 200 else { throw TestFailure("The provider said \(response.status): \(response.text)") }
    return response.text
  }
}
