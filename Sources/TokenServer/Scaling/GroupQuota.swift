import CatalogProxy
import EventLoop
import Locks
import Redis
import UpstreamAdmission

/// Apple's quota and the circuit, which the replicas of one team and upstream share. ``QuotaScript`` has the quota, in
/// `{prefix}:pace:<scope>` at the store: it hears what each replica has sent and which 429s it met, and gives turns.
///
/// Confined to the group's loop, except ``QuotaGroup``'s functions.
final class GroupQuota: GroupParticipant, QuotaGroup, @unchecked Sendable {
  // Sendable by confinement.
  let kind = GroupMessage.Kind.quota
  private let group: ReplicaGroup
  private let gateway: CatalogGateway
  /// ``GroupSecret/scope``.
  private var scope: [UInt8]
  private var hasJoined = false
  /// Since when no settlement had a reply; nil after one that had.
  private var missedSince: Deadline?
  /// When a message of another replica was last a reason to settle.
  private var messageAt = Deadline(nanoseconds: 0)
  /// Whether a settlement before the next regular one is requested. Many requests and 429s may arrive at once.
  private let isSettlingSoon = Locked(false)

  /// The time without a reply after which this replica keeps an own limit: 1 s. One late settlement changes nothing.
  private static let patience = Duration.seconds(1)
  /// The shortest time between settlements because of messages: 20 ms.
  private static let leastInterval = Duration.milliseconds(20)
  private static let script = RedisScript(QuotaScript.learning, QuotaScript.settlement)

  /// What a message is about. Replicas of other versions ignore those that they do not know.
  private enum Kind: UInt8 {
    case circuit = 3
    case refusal = 4
  }

  init(_ group: ReplicaGroup, _ secret: GroupSecret, _ gateway: CatalogGateway) {
    (self.group, self.gateway, scope) = (group, gateway, secret.scope)
    gateway.use(self)
  }

  func settlement(at now: Deadline) -> ScriptCall? {
    isSettlingSoon.withLock { $0 = false }
    if hasJoined, let missedSince, now.duration(since: missedSince) >= Self.patience {
      hasJoined = false
      gateway.leave(seed: group.id)
    }
    let report = gateway.quotaReport()
    let message = group.header(.quota) + [Kind.refusal.rawValue] + scope
    let arguments = report.arguments(of: group.member, channel: group.channel, message: message)
    return ScriptCall(script: Self.script, keys: [group.key("pace:") + scope], arguments: arguments) { [self] in
      settled($0, report, sentAt: now)
    }
  }

  private func settled(_ value: RESPValue?, _ report: QuotaReport, sentAt: Deadline) {
    let now = group.client.loop.now
    // The store replied between sending and now.
    let replied = sentAt.elapsed + now.duration(since: sentAt) / 2
    guard let reply = value.flatMap({ QuotaReply($0, now: replied) }) else {
      missedSince = missedSince ?? now
      return gateway.use(nil, to: report)
    }
    missedSince = nil
    if !hasJoined {
      hasJoined = true
      gateway.join(reply.team.replicas, seed: group.id)
    }
    gateway.use(reply, to: report)
  }

  func received(_ payload: ArraySlice<UInt8>, now: Deadline) {
    // Replicas of another team or upstream have another quota.
    guard hasJoined, let kind = payload.first, payload.dropFirst().starts(with: scope) else { return }
    let content = payload.dropFirst(1 + scope.count)
    switch Kind(rawValue: kind) {
    case .refusal:
      guard now.duration(since: messageAt) >= Self.leastInterval else { return }
      messageAt = now
      gateway.pauseForRefusal()
      settleSoon()
    case .circuit:
      let replica = content.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
      guard let news = CircuitNews(content.dropFirst(8)) else { return }
      gateway.learn(news, of: replica, spread: .random(in: 0...1))
    case nil: return
    }
  }

  // The script counts the replicas of the scope, which may be fewer than the group's.
  func changed(_ state: GroupState) {}

  func use(_ secret: GroupSecret) { scope = secret.scope }

  func settleSoon() {
    let isFirst = isSettlingSoon.withLock { isSoon in
      defer { isSoon = true }
      return !isSoon
    }
    if isFirst { group.settleNow(self) }
  }

  func tell(_ news: CircuitNews) {
    group.client.loop.post { [self] in
      // The header ends with the replica.
      group.publish(.quota, [Kind.circuit.rawValue] + scope + group.header(.quota).suffix(8) + news.bytes)
    }
  }
}

extension QuotaReply {
  fileprivate init?(_ value: RESPValue, now: Duration) {
    guard let elements = value.elements, let parts = elements.last?.bytes else { return nil }
    self.init(elements.dropLast().compactMap(\.number), parts: parts, now: now)
  }
}
