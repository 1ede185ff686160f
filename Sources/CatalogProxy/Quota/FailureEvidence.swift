/// The recent failures by caller and resource, and the callers that succeeded recently. They show whether the upstream
/// causes the failures, or one caller does.
struct FailureEvidence: Sendable {
  /// The most failures that are remembered, each for another pair of caller and resource.
  private static let mostFailures = 16

  /// At so many resources one client's requests have to fail to say something of the upstream.
  private static let leastResources = 3

  private let window: Duration
  /// In the order in which they happened.
  private var failures: [(subject: CircuitSubject, time: Duration)] = []
  /// The last success of each of the two callers that succeeded last.
  private var successes: [(caller: UInt64, time: Duration)] = []

  init(window: Duration) {
    self.window = window
  }

  /// A request failed in a way that says something of the upstream.
  mutating func failed(_ subject: CircuitSubject, now: Duration) {
    failures.removeAll { $0.subject == subject || now - $0.time > window }
    if failures.count >= Self.mostFailures { failures.removeFirst() }
    failures.append((subject, now))
  }

  /// A request succeeded.
  mutating func succeeded(_ subject: CircuitSubject, now: Duration) {
    successes.removeAll { $0.caller == subject.caller }
    if successes.count > 1 { successes.removeFirst() }
    successes.append((subject.caller, now))
  }

  /// Forgets the failures: the upstream answers. Whose requests succeed is remembered, for their sake it stays in use.
  mutating func forgetFailures() {
    failures = []
  }

  /// How many second opinions clients may give in a while; see ``SecondOpinions``. None of a caller that has failed at
  /// several resources. The more callers of a client fail, the fewer; one if several clients fail.
  func opinions(of subject: CircuitSubject, now: Duration) -> Int {
    let recent = failures.filter { now - $0.time <= window }.map(\.subject)
    let own = Set(recent.filter { $0.caller == subject.caller }.map(\.resource))
    guard own.count < 2 else { return 0 }
    if Set(recent.map(\.client)).count > 1 { return 1 }
    let callers = Set(recent.filter { $0.client == subject.client }.map(\.caller))
    return SecondOpinions.most / (1 + callers.count)
  }

  /// Whether the failures are evidence about the upstream: several clients' at several resources, or at three or more
  /// resources while no other caller's request succeeded.
  func isBroad(now: Duration) -> Bool {
    let recent = failures.filter { now - $0.time <= window }
    let resources = Set(recent.map(\.subject.resource))
    guard resources.count > 1 else { return false }
    if Set(recent.map(\.subject.client)).count > 1 { return true }
    guard resources.count >= Self.leastResources else { return false }
    let callers = Set(recent.map(\.subject.caller))
    return successes.allSatisfy { now - $0.time > window || callers.contains($0.caller) }
  }
}
