package import UpstreamAdmission

/// The group of replicas with which the gateway shares Apple's quota. Any thread may call it, and nothing waits.
package protocol QuotaGroup: AnyObject, Sendable {
  /// Asks the store for turns. ``CatalogGateway/take(_:)`` gets them, or nil if none came in time.
  func ask(for turns: TurnRequest)
  /// Settles soon, because Apple has sent a 429.
  func settleSoon()
  /// Tells the other replicas about this one's circuit.
  func tell(_ news: CircuitNews)
}

/// What the limit needs of the other replicas after an operation.
struct QuotaNeeds: Sendable {
  let group: any QuotaGroup
  let turns: TurnRequest?
  let isUrgent: Bool

  func request() {
    if isUrgent { group.settleSoon() }
    if let turns { group.ask(for: turns) }
  }
}

// Apple's quota and the circuit of several replicas. Any thread may call these functions.
extension CatalogGateway {
  /// The bounds of the requests in flight of all replicas together.
  package var concurrency: ConcurrencyLimits { configuration.concurrency }

  /// Sets the group, before the first request.
  package func use(_ group: any QuotaGroup) {
    withAdmission { $0.quotaGroup = group }
  }

  /// Follows the group from now on.
  ///
  /// - Parameter seed: A number that differs among replicas.
  package func join(_ replicas: Int, seed: UInt64) {
    let now = clock.elapsed
    withAdmission { admission in
      admission.limit.join(replicas, seed: seed, now: now)
      admission.circuit.use(replicas: replicas)
    }
  }

  /// Keeps a limit of its own from now on: an equal part of what the group had.
  package func leave(_ replicas: Int, seed: UInt64) {
    change { admission, now in admission.limit.leave(replicas, seed: seed, now: now) }
  }

  /// Uses what the group knows.
  ///
  /// - Parameter limit: The most requests in flight of all replicas.
  package func use(_ team: TeamQuota, limit: Int) {
    change { admission, now in
      admission.circuit.use(replicas: team.replicas)
      return admission.limit.use(team, limit: limit, now: now)
    }
  }

  /// Takes turns from the store; nil if it did not reply in time.
  package func take(_ lease: TurnLease?) {
    change { admission, now in admission.limit.take(lease, now: now) }
  }

  /// Returns what the other replicas must know. Nil outside of a group.
  package func quotaReport() -> QuotaReport? {
    let now = clock.elapsed
    return withAdmission { $0.limit.report(now: now) }
  }

  /// Notes that the others have the report that was made at a time.
  package func reported(at time: Duration) {
    withAdmission { $0.limit.reported(at: time) }
  }

  /// Takes another replica's news about the circuit.
  ///
  /// - Parameter spread: A number from 0 to 1 that differs among replicas and news.
  package func learn(_ news: CircuitNews, of replica: UInt64, spread: Double) {
    let now = clock.elapsed
    let (wasOpen, isOpen) = withAdmission { admission in
      let wasOpen = !admission.circuit.isClosed
      admission.circuit.learn(news, of: replica, spread: spread, now: now)
      return (wasOpen, !admission.circuit.isClosed)
    }
    if wasOpen != isOpen { observer.noticed(isOpen ? .circuitOpened : .circuitClosed) }
  }

  /// Tells the other replicas about this one's circuit.
  func tell(_ news: CircuitNews) {
    withAdmission { $0.quotaGroup }?.tell(news)
  }

  /// Changes the limit, and does what that requires.
  private func change(_ body: (inout Admission, Duration) -> [CatalogLimit.Grant]) {
    let now = clock.elapsed
    perform(
      withAdmission { admission in
        let grants = body(&admission, now)
        return admission.duties(now: now, handing: grants)
      })
  }
}
