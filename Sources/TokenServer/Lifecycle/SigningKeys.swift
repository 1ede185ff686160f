import DeveloperToken
import Locks
import Telemetry
import UpstreamAdmission

/// The state of every configured signing key, for `/readyz` and `/metrics`. The reloader keeps it up to date.
final class SigningKeys: Sendable {
  struct Key: Sendable, Equatable {
    let id: KeyID
    var state: SigningKeyState
    /// The time at which the key was last proved, in seconds since 1970: for the active key, when it signed its probe.
    /// Nil if it was not.
    var lastProof: Int?
    /// Why the last proof was not accepted: a sentence or more. Nil if it was, or if there was none.
    var finding: String?
    /// The time until which callers may hold tokens of the key, in seconds since 1970. Nil for a key that signs, and
    /// for one that has not signed.
    var tokensExpireAt: Int?
  }

  private let keys = Locked<[Key]>([])

  /// The keys in the order: active, next, retired.
  var all: [Key] {
    get { keys.withLock { $0 } }
    set { keys.withLock { $0 = newValue } }
  }

  /// The result of the readiness check of a rotation: a sentence, and whether the rotation needs the operator.
  var rotation: (detail: String, needsOperator: Bool)? {
    let all = all
    guard let next = all.dropFirst().first(where: { $0.state != .retired }) else { return nil }
    switch next.state {
    case .signing: return ("key \(next.id) signs", false)
    case .proved: return ("key \(next.id) is proved, and signs from its notBefore on", false)
    case .refused:
      return ("Apple Music refuses tokens of the next key \(next.id), so key \(all[0].id) signs\(next.reason)", true)
    case .unproved, .replaced, .retired:
      return ("key \(next.id) is not proved yet, so key \(all[0].id) signs\(next.reason)", false)
    }
  }
}

enum SigningKeyState: String, Sendable, CaseIterable {
  /// Callers get its tokens.
  case signing
  /// The active key while the next key signs.
  case replaced
  /// The next key before its first proof, and without an upstream for good.
  case unproved
  /// The next key after its proof, until `notBefore`.
  case proved
  /// The next key after Apple Music has refused a token of it.
  case refused
  case retired

  init(_ state: NextKeyState) {
    self =
      switch state {
      case .unproved: .unproved
      case .proved: .proved
      case .refused: .refused
      case .signing: .signing
      }
  }
}

extension SigningKeys.Key {
  /// The finding as the end of a sentence without its full stop; empty without one.
  fileprivate var reason: String {
    guard let finding else { return "" }
    return ": " + (finding.hasSuffix(".") ? finding.dropLast() : finding[...])
  }
}

extension SigningKeys {
  /// The keys, and the time at which Apple Music last accepted a token of the key that signs.
  typealias Reading = (keys: [Key], accepted: Int?)

  static let metrics: [MetricReading<Reading>] = [
    MetricReading(
      .gauge, "musickit_signing_key_state",
      "1 for the present state of each key, 0 for all others. Exactly one key is `signing`. A key that a reload has "
        + "replaced is `retired` while its tokens may live.",
      labels: ["key", "state"]
    ) { reading in
      reading.keys.flatMap { key in
        SigningKeyState.allCases.map { state in
          ([.configured("\(key.id)"), .configured(state.rawValue)], key.state == state ? 1 : 0)
        }
      }
    },
    MetricReading(
      .gauge, "musickit_signing_key_last_proof_timestamp_seconds",
      "Unix time at which Apple Music last accepted a token of the key, or the key signed its probe at a load. 0 before.",
      labels: ["key"]
    ) { reading in
      reading.keys.filter { $0.state != .retired }.map { key in
        let proof = max(key.lastProof ?? 0, key.state == .signing ? reading.accepted ?? 0 : 0)
        return ([.configured("\(key.id)")], Double(proof))
      }
    },
    MetricReading(
      .gauge, "musickit_signing_key_tokens_expire_timestamp_seconds",
      "Unix time until which callers may hold tokens of a key that does not sign any more: do not revoke it before.",
      labels: ["key"]
    ) { reading in
      reading.keys.compactMap { key in key.tokensExpireAt.map { ([.configured("\(key.id)")], Double($0)) } }
    },
  ]
}
