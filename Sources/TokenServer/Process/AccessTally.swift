import Locks
import Telemetry

/// Counts the decisions of access control by client, outcome and reason.
///
/// One for all loops and all generations of settings: a decision costs a lock for some ten nanoseconds, and memory only
/// for what occurs for the first time.
final class AccessTally: @unchecked Sendable {
  // Sendable: `places` and `clients` are touched only under `lock`.
  private let lock = Mutex()
  private var places: [String: Int] = [:]
  private var clients: [ClientTally] = []

  /// Clients that are told apart: more than a configuration may have, and those of some reloads. What comes beyond counts
  /// as ``rest``, so that no sequence of reloads fills the monitoring with time series.
  static let clientLimit = 2000
  static let rest = "other"

  /// The decisions.
  static let decisions = Metric(
    .counter, "musickit_access_decisions_total",
    "Requests granted, refused and limited. The client is its id in the settings, or `-` if no client matches the caller.",
    labels: ["client", "outcome", "reason"])

  /// What the audit has lost.
  static let audit: [MetricReading<AuditLog>] = [
    MetricReading(
      .counter, "musickit_audit_lines_dropped_total", "Audit records lost because their file could not be written.",
      \.lostLines)
  ]

  /// Counts one decision.
  ///
  /// - Parameters:
  ///   - client: A client's id in the settings, or what stands for none: never anything that came in a request.
  ///   - reason: Why, in one word; nil if there is nothing to explain.
  func count(client: String, _ outcome: AuditRecord.Outcome, reason: StaticString?) {
    lock.withLock {
      let place = places[client] ?? newPlace(for: client)
      clients[place].count(outcome, reason ?? "-")
    }
  }

  /// Adds the decisions to `text`, in the order of clients, outcomes and reasons.
  func write(to text: inout MetricsText) {
    text.begin(Self.decisions)
    for client in lock.withLock({ clients }).sorted(by: { $0.client < $1.client }) {
      for decision in client.decisions.sorted(by: { $0.order < $1.order }) {
        text.sample(
          of: Self.decisions, Double(decision.count),
          [.configured(client.client), .word(decision.outcome.name), .word(decision.reason)])
      }
    }
  }

  private func newPlace(for client: String) -> Int {
    let name = clients.count < Self.clientLimit ? client : Self.rest
    if let place = places[name] { return place }
    places[name] = clients.count
    clients.append(ClientTally(client: name))
    return clients.count - 1
  }
}

/// The decisions about one client.
private struct ClientTally {
  struct Decision {
    let outcome: AuditRecord.Outcome
    let reason: StaticString
    var count: Int

    var order: String { "\(outcome.name) \(reason)" }
  }

  let client: String
  /// A handful: one for each outcome and reason that has occurred.
  private(set) var decisions: [Decision] = []

  init(client: String) {
    self.client = client
  }

  mutating func count(_ outcome: AuditRecord.Outcome, _ reason: StaticString) {
    for index in decisions.indices
    where decisions[index].outcome == outcome && decisions[index].reason.isSame(as: reason) {
      decisions[index].count &+= 1
      return
    }
    decisions.append(Decision(outcome: outcome, reason: reason, count: 1))
  }
}
