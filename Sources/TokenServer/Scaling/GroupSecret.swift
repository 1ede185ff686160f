import Cryptography
import DeveloperToken
import ServerSettings

/// A secret of all replicas with the same signing key. The store does not have it, so names at the store tell nothing
/// about addresses, subjects and requests, and the store cannot make a response that a replica believes.
///
/// A replica with another key has another secret. So while the key changes, replicas with the old one and those with the
/// new one share rates and responses only among themselves.
struct GroupSecret: Sendable {
  /// Makes the names of the buckets of rates.
  let rates: MessageAuthenticator
  /// Makes the keys of shared responses, and the codes in them.
  let cache: MessageAuthenticator
  /// What this replica tells the others of itself.
  let facts: GroupFacts

  /// Derives the secret from a signing key.
  ///
  /// - Throws: `CryptographyError` if OpenSSL fails.
  init(_ key: SigningKey, _ settings: Settings) throws(CryptographyError) {
    rates = try MessageAuthenticator(key: key.secret(for: "musickit-token-server 1 rates"))
    cache = try MessageAuthenticator(key: key.secret(for: "musickit-token-server 1 cache"))
    let tags = try MessageAuthenticator(key: key.secret(for: "musickit-token-server 1 facts"))
    facts = try GroupFacts(settings, authenticator: tags)
  }
}
