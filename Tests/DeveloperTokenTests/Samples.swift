import Cryptography
import TestSupport
import Testing

@testable import DeveloperToken

/// Shared by the tests: identifiers, times, and keys that the openssl command generates in every run.
enum Samples {
  static let keyIDText = "ABC123DEFG"
  static let now = 1_795_000_000

  static func keyID() throws -> KeyID { try KeyID(keyIDText) }
  static func team() throws -> TeamID { try TeamID("TEAM123456") }
  static func key() throws -> SigningKey { try SigningKey.generate(keyID: keyID()) }

  static func minter(_ policy: TokenPolicy? = nil, capacity: Int = 1024) throws -> TokenMinter {
    try TokenMinter(key: key(), team: team(), policy: policy ?? TokenPolicy(), cacheCapacity: capacity)
  }

  static func secret(_ text: String) -> SecretBytes { SecretBytes(copying: Array(text.utf8).span) }

  /// A new P-256 key in the form in which Apple offers keys for download.
  static let p8 = openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256")

  /// The output of `openssl`, piped through further commands if there are any.
  static func openssl(_ arguments: String) -> String {
    do {
      let result = try run("sh", ["-c", "openssl \(arguments)"])
      if result.status != 0 { Issue.record("openssl \(arguments): \(result.stderr)") }
      return result.stdout
    } catch {
      Issue.record("openssl \(arguments): \(error)")
      return ""
    }
  }
}
