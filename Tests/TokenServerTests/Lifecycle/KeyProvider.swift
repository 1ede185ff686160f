import Access
import Bytes
import Glibc
import JSON
import TestSupport
import Testing

/// `jwks_provider.py`: an identity provider with HTTPS. PyJWT makes its tokens.
final class KeyProvider {
  let directory: TemporaryDirectory
  /// `https://127.0.0.1:PORT`.
  let url: String
  private let adminURL: String
  private let process: ChildProcess

  /// The provider's key set, with the provider's certificate as trust anchor.
  var source: KeySetSource { .url("\(url)/jwks.json", caFile: directory.path(of: "tls.crt")) }

  /// An issuer whose discovery document the provider has.
  func issuer(_ path: String = "/") -> KeySetSource { .issuer("\(url)\(path)", caFile: directory.path(of: "tls.crt")) }

  init() throws {
    directory = try TemporaryDirectory()
    let certificate = try Certificate(key: KeyPair())
    let file = try directory.write(certificate.pem, to: "tls.crt")
    let keyFile = try directory.write(certificate.key.pem, to: "tls.key")
    let python = unsafe getenv("TEST_PYTHON").map { unsafe String(cString: $0) } ?? "python3"
    process = try ChildProcess(python, [Self.script("jwks_provider.py"), file, keyFile])
    guard let first = try process.line(), let second = try process.line() else {
      throw TestFailure("The provider has ended: \(process.standardError)")
    }
    url = String(first.dropFirst("Listening on ".count))
    adminURL = String(second.dropFirst("Admin on ".count))
  }

  // MARK: Control of the provider

  /// Sets the provider's behaviour for all later requests.
  func behave(_ behaviour: String) throws { _ = try ask("PUT", "/?do=\(behaviour)") }

  /// Rotates the provider's keys.
  ///
  /// - Parameter keepingNames: Whether the new keys have the `kid` of the old ones.
  func rotate(keepingOld: Bool = false, keepingNames: Bool = false) throws {
    let options = [keepingOld ? "keep=1" : "", keepingNames ? "same=1" : ""].filter { !$0.isEmpty }
    _ = try ask("POST", "/rotate?\(options.joined(separator: "&"))")
  }

  /// Lets the provider answer the requests in flight.
  func release() throws { _ = try ask("POST", "/release") }

  /// A token signed with a key of the provider.
  func mint(_ query: String = "") throws -> String { try ask("POST", "/mint?\(query)") }

  /// The number of requests for the key set.
  func requests() throws -> Int { Int(try state("requests")) ?? 0 }

  /// The number of requests for the discovery document.
  func discoveries() throws -> Int { Int(try state("discoveries")) ?? 0 }

  /// A number or a text from the provider's own status.
  func state(_ name: String) throws -> String {
    switch JSONReader.read(Array(try ask("GET", "/").utf8))?[name] {
    case .number(let text): text
    case .string(let text): text.text
    default: ""
    }
  }

  /// Waits until the provider holds this number of requests.
  func waitUntilHolding(_ count: Int) throws {
    try wait(for: "\(count) requests that the provider holds") { try state("held") == "\(count)" }
  }

  /// Waits until the provider holds a request, while other tasks run.
  func waitUntilItHolds() async throws {
    try await until("the provider holds a request") { try state("held") == "1" }
  }

  private func ask(_ method: String, _ target: String) throws -> String {
    let result = try run("curl", ["--silent", "--show-error", "--fail", "-X", method, "\(adminURL)\(target)"])
    guard result.status == 0 else { throw TestFailure("The provider does not answer: \(result.stderr)") }
    return result.stdout
  }

  /// The path of a script in `Tests/Python`.
  static func script(_ name: String) -> String {
    String("\(#filePath)".split(separator: "/").dropLast(3).map { "/" + $0 }.joined()) + "/Python/\(name)"
  }
}
