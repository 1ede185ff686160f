import Access
import Bytes
import Cryptography
import DeveloperToken
import HTTPCache
import HTTPMessages
import ServerSettings

/// A secret of all replicas with the same signing key. The store does not have it, so names at the store tell nothing
/// about addresses, subjects and requests, and the store cannot make a response that a replica believes.
///
/// While the key changes, replicas with the old and with the new one share rates and responses only among themselves.
struct GroupSecret: Sendable {
  /// Makes the names of the buckets of rates.
  let rates: MessageAuthenticator
  /// Makes the keys of shared responses, and the codes in them.
  let cache: SharedEntryCodec
  /// A digest of the team and the upstream. Replicas with the same one share Apple's quota, also while the key changes.
  let scope: [UInt8]
  let facts: GroupFacts

  init(_ key: SigningKey, _ settings: Settings) throws(CryptographyError) {
    rates = try MessageAuthenticator(key: key.secret(for: "musickit-token-server 1 rates"))
    let (team, upstream) = ("\(settings.musickit.teamID)", settings.catalog?.upstream.description ?? "")
    cache = SharedEntryCodec(
      authenticator: try MessageAuthenticator(key: key.secret(for: "musickit-token-server 1 cache")),
      upstream: upstream, team: team)
    let digest = try SHA256.digest(of: Array("\(team) \(upstream)".utf8).span)
    scope = Array(String(hexadecimal: digest.span.extracting(..<8)).utf8)
    let tags = try MessageAuthenticator(key: key.secret(for: "musickit-token-server 1 facts"))
    facts = try GroupFacts(settings, authenticator: tags)
  }
}

/// What all replicas of one store should have in common. Each tells the others, so that they notice when they do not share
/// what they seem to share. The store learns from it only which replicas are alike: the tag of the key needs the group's
/// secret, and the rates are a digest.
struct GroupFacts: Sendable, Equatable {
  /// What may differ. The order is that of the text.
  enum Part: String, CaseIterable, Sendable {
    case version
    /// The signing key, from which the group's secret comes, or the team.
    case key
    /// The `rateLimit` of the clients.
    case rates

    var words: String {
      switch self {
      case .version: "another version"
      case .key: "another signing key or team"
      case .rates: "another rateLimit of a client"
      }
    }
  }

  /// The most bytes of a text, and the most different texts of others that count.
  private static let mostBytes = 200
  static let mostOthers = 10

  private let parts: [[UInt8]]

  init(_ settings: Settings, authenticator: MessageAuthenticator) throws(CryptographyError) {
    var rates: [UInt8] = []
    let clients = settings.access.clients + [settings.access.anonymous].compactMap { $0 }
    for client in clients.sorted(by: { $0.id < $1.id }) where !client.rates.isUnlimited {
      rates += "\(client.id) \(client.rates.isStrict) \(client.rate.text) \(client.totalRate.text)\n".utf8
    }
    let team = Array("\(settings.musickit.teamID)".utf8)
    parts = [
      Array("\(Release.version)".utf8), Self.text(authenticator.code(of: team.span)),
      Self.text(try SHA256.digest(of: rates.span)),
    ]
  }

  /// Reads the text of another replica. It comes from outside, so it may be anything.
  init(_ text: [UInt8]) { parts = text.prefix(Self.mostBytes).split(separator: UInt8(ascii: " ")).map { Array($0) } }

  var text: [UInt8] { Array(parts.joined(separator: [UInt8(ascii: " ")])) }

  /// Returns the parts in which another replica differs. A text without the parts has another version.
  func differences(from other: GroupFacts) -> [Part] {
    guard other.parts.count >= Part.allCases.count else { return [.version] }
    return zip(Part.allCases, zip(parts, other.parts)).filter { $1.0 != $1.1 }.map(\.0)
  }

  /// The first half of a digest, which is enough to tell a few replicas apart.
  private static func text(_ digest: InlineArray<32, UInt8>) -> [UInt8] {
    Array(String(hexadecimal: digest.span.extracting(..<16)).utf8)
  }
}

extension Rate? {
  fileprivate var text: String { map { "\($0.perSecond)/\($0.burst)" } ?? "-" }
}
