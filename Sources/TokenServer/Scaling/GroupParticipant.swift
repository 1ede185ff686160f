import EventLoop
import Redis

/// A part of the server that settles with the other replicas. The group makes all calls on its loop.
protocol GroupParticipant: AnyObject, Sendable {
  var kind: GroupMessage.Kind { get }
  /// The script of one settlement; nil if there is nothing to settle.
  func settlement(at now: Deadline) -> ScriptCall?
  /// Takes a message of another replica. It comes from outside, so it may be anything.
  func received(_ payload: ArraySlice<UInt8>, now: Deadline)
  /// Takes the state of the group, at the start and when it changes.
  func changed(_ state: GroupState)
  /// Takes the secret of the group after a reload; the signing key may have changed.
  func use(_ secret: GroupSecret)
}

struct ScriptCall {
  let script: RedisScript
  let keys: [[UInt8]]
  let arguments: [[UInt8]]
  /// Takes the reply; nil if none came in time, or if the store refused the script.
  var completion: (RESPValue?) -> Void = { _ in }
}

/// What a replica knows of its group.
struct GroupState: Sendable, Equatable {
  /// Whether the store responds.
  var isTogether = false
  /// The number of replicas, this one included; without the store the last known one.
  var count = 1
}

/// A message on the group's channel: a kind, the version of the format, its sender, and a payload.
struct GroupMessage {
  /// What a message is about. The bytes are part of the format.
  enum Kind: UInt8, CaseIterable {
    case rates = 1
    case quota = 2
    case cache = 3
  }

  /// The version of the format of all messages and values at the store. Replicas ignore messages of other versions.
  static let version: UInt8 = 1

  let kind: Kind
  let sender: UInt64
  let payload: ArraySlice<UInt8>

  init?(_ bytes: [UInt8]) {
    guard bytes.count >= 10, bytes[1] == Self.version, let kind = Kind(rawValue: bytes[0]) else { return nil }
    self.kind = kind
    sender = bytes[2..<10].reduce(0) { $0 << 8 | UInt64($1) }
    payload = bytes[10...]
  }

  static func header(_ kind: Kind, from sender: UInt64) -> [UInt8] {
    [kind.rawValue, version] + (0..<8).map { UInt8(truncatingIfNeeded: sender >> (56 - 8 * $0)) }
  }
}
