import Cryptography
import DeveloperToken

/// A secret of all replicas with the same signing key. The store does not have it, so names at the store tell nothing
/// about addresses and subjects, and the store cannot write an entry that a replica believes.
///
/// A replica with another key has another secret. So while the key changes, replicas with the old one and those with the
/// new one share rates and responses only among themselves.
struct GroupSecret: Sendable {
  /// What a code is for. Each purpose has a key of its own.
  enum Purpose {
    /// The names of buckets of rates.
    case rates
    /// The names and the entries of cached responses.
    case cache

    fileprivate var label: StaticString {
      switch self {
      case .rates: "musickit-token-server 1 rates"
      case .cache: "musickit-token-server 1 cache"
      }
    }
  }

  private let rates: MessageAuthenticator
  private let cache: MessageAuthenticator

  /// Derives the secret from a signing key.
  ///
  /// - Throws: `CryptographyError` if OpenSSL fails.
  init(_ key: SigningKey) throws(CryptographyError) {
    rates = try MessageAuthenticator(key: key.secret(for: Purpose.rates.label))
    cache = try MessageAuthenticator(key: key.secret(for: Purpose.cache.label))
  }

  /// Returns what computes the codes for a purpose.
  func authenticator(for purpose: Purpose) -> MessageAuthenticator {
    switch purpose {
    case .rates: rates
    case .cache: cache
    }
  }
}
