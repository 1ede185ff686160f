import COpenSSL
import Cryptography
import Glibc
import TestSupport
import Testing

@testable import DeveloperToken

@Suite("A secret", .otherPrograms)
struct SecretTests {
  @Test("never appears in descriptions, dumps, mirrors or errors of a key")
  func nothingShows() throws {
    let key = try SigningKey(parsing: Samples.secret(Samples.p8), keyID: Samples.keyID())
    var shown = "\(key) \(String(reflecting: key)) \(Mirror(reflecting: key).children.map { "\($0)" })"
    dump(key, to: &shown)
    dump(Samples.secret(Samples.p8), to: &shown)
    let text = Samples.secret(Samples.p8)
    shown += "\(text) \(String(reflecting: text)) \(Mirror(reflecting: text).children.map { "\($0)" })"
    shown += try brokenForms().map { try message($0) }.joined(separator: "\n")
    for window in fragments(of: Samples.p8) { #expect(!shown.contains(window)) }
  }

  /// The key, damaged in ways that cause different errors.
  private func brokenForms() -> [String] {
    let body = KeyFormTests.replacing(KeyFormTests.body(Samples.p8), "\n", "")
    return [
      String(Samples.p8.dropLast(40)), "-----BEGIN \(body)-----\n\(body)\n-----END \(body)-----", body + ".p8",
      "/" + body,
      "eyJ.\(body)", "{\(body)", "!" + body, body.lowercased(), String(body.dropLast(9)),
    ]
  }

  private func message(_ text: String) throws -> String {
    let error = try #require(throws: SigningKeyError.self) {
      try SigningKey(parsing: Samples.secret(text), keyID: Samples.keyID())
    }
    var dumped = "\(error) \(String(reflecting: error))"
    dump(error, to: &dumped)
    return dumped
  }

  /// Every eight consecutive characters of the part of the body that differs from key to key.
  private func fragments(of pem: String) -> [String] {
    let body = Array(KeyFormTests.replacing(KeyFormTests.body(pem), "\n", "").dropFirst(48))
    return (0...(body.count - 8)).map { String(body[$0..<($0 + 8)]) }
  }

  @Test("pasted as an identifier does not appear in the error")
  func pastedAsIdentifier() throws {
    for text in [Samples.p8, KeyFormTests.replacing(KeyFormTests.body(Samples.p8), "\n", "")] {
      let error = try #require(throws: IdentifierError.self) { try KeyID(text) }
      for window in fragments(of: Samples.p8) { #expect(!"\(error)".contains(window)) }
    }
  }

  @Test("is moved out of the environment")
  func environment() throws {
    unsafe setenv("DEVELOPER_TOKEN_TESTS", "a secret", 1)
    let value = unsafe getenv("DEVELOPER_TOKEN_TESTS")
    let secret = try #require(SecretBytes.take(environmentVariable: "DEVELOPER_TOKEN_TESTS"))
    #expect(secret.bytes == Array("a secret".utf8))
    #expect(unsafe getenv("DEVELOPER_TOKEN_TESTS") == nil)
    #expect(unsafe value.map { unsafe $0[0] } == 0, "the value itself is wiped")
    #expect(SecretBytes.take(environmentVariable: "DEVELOPER_TOKEN_TESTS") == nil)
  }

  @Test("whose initialization fails throws the error of the initialization")
  func failedInitialization() {
    struct Failure: Error {}
    #expect(throws: Failure.self) {
      try SecretBytes(capacity: 4) { output throws(Failure) in
        output.append(1)
        throw Failure()
      }
    }
  }

  @Test("may be empty")
  func empty() { #expect(Samples.secret("").count == 0) }

  @Test("is kept in locked memory without core files where the system allows it, and repeated protection is harmless")
  func protection() async {
    // In its own process, because the program protects memory first, while it has one thread.
    await #expect(processExitsWith: .success) {
      let findings = SecureMemory.protect()
      var limit = rlimit()
      unsafe getrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
      let ids = findings.map(\.id)
      precondition(SecureMemory.protect() == findings)
      precondition(limit.rlim_cur == 0 || ids.contains("memory.core_files"))
      precondition(!ids.contains("memory.no_secure_heap"))
      // More secrets than the locked memory holds are kept as well.
      let secrets = (0..<100).map { _ in SecretBytes(copying: [UInt8](repeating: 7, count: 1000)[...]) }
      precondition(secrets.allSatisfy { $0.count == 1000 })
    }
  }
}
