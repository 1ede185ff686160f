import Access
import Bytes
import Cryptography
import ServerSettings

/// What all replicas of one store should have in common. Each tells the others by the store, so that they notice when they
/// do not share what they seem to share.
///
/// The store learns from it only which replicas are alike: the tag of the key needs the group's secret, and the rates are a
/// digest.
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
    for client in (settings.access.clients + [settings.access.anonymous].compactMap { $0 }).sorted(by: { $0.id < $1.id }
    ) {
      let text = "\(client.id) \(client.rates.isStrict) \(client.rate.text) \(client.totalRate.text)\n"
      if !client.rates.isUnlimited { rates += text.utf8 }
    }
    let team = Array("\(settings.musickit.teamID)".utf8)
    parts = [
      Array("\(Release.version)".utf8), Self.text(authenticator.code(of: team.span)),
      Self.text(try SHA256.digest(of: rates.span)),
    ]
  }

  /// Reads the text of another replica. It comes from outside, so it may be anything; a text without the parts has another
  /// version.
  init(_ text: [UInt8]) {
    parts = text.prefix(Self.mostBytes).split(separator: UInt8(ascii: " ")).map { Array($0) }
  }

  var text: [UInt8] { Array(parts.joined(separator: [UInt8(ascii: " ")])) }

  /// Returns the parts in which another replica differs. Of one of another form only that is known.
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
