package import UpstreamAdmission

/// The group of replicas with which the gateway shares Apple's quota. Any thread may call it, and nothing waits.
package protocol QuotaGroup: AnyObject, Sendable {
  /// Settles soon, because requests wait for turns, or because Apple has sent a 429.
  func settleSoon()
  /// Tells the other replicas about this one's circuit.
  func tell(_ news: CircuitNews)
}

// Apple's quota and the circuit of several replicas. Any thread may call these functions.
extension CatalogGateway {
  /// The bounds of the requests in flight of all replicas together.
  package var concurrency: ConcurrencyLimits { configuration.concurrency }

  /// Sets the group, before the first request.
  package func use(_ group: any QuotaGroup) { withAdmission { $0.quotaGroup = group } }

  /// Follows the group from now on. `seed` differs among replicas.
  package func join(_ replicas: Int, seed: UInt64) {
    let now = clock.elapsed
    withAdmission { admission in
      admission.limit.join(replicas, seed: seed, now: now)
      admission.circuit.use(replicas: replicas)
    }
  }

  /// Keeps a limit of its own from now on: an equal part of what the group had.
  package func leave(seed: UInt64) { change { admission, now in admission.limit.leave(seed: seed, now: now) } }

  /// Uses what the store has replied to a settlement with this report; nil if it did not reply in time.
  package func use(_ reply: QuotaReply?, to report: QuotaReport) {
    change { admission, now in
      guard let reply else { return report.turns == nil ? [] : admission.limit.missTurns(now: now) }
      admission.circuit.use(replicas: reply.team.replicas)
      return admission.limit.use(reply, to: report, now: now)
    }
  }

  /// Returns what the store must know of this replica, and which turns it needs.
  package func quotaReport() -> QuotaReport {
    let now = clock.elapsed
    return withAdmission { $0.limit.report(now: now) }
  }

  /// Pauses because another replica has met a 429.
  package func pauseForRefusal() {
    let now = clock.elapsed
    withAdmission { $0.limit.pauseForRefusal(now: now) }
  }

  /// Takes another replica's news about the circuit. `spread` is from 0 to 1, and differs among replicas and news.
  package func learn(_ news: CircuitNews, of replica: UInt64, spread: Double) {
    let now = clock.elapsed
    let (wasOpen, isOpen) = withAdmission { admission in
      let wasOpen = !admission.circuit.isClosed
      admission.circuit.learn(news, of: replica, spread: spread, now: now)
      return (wasOpen, !admission.circuit.isClosed)
    }
    if wasOpen != isOpen { observer.noticed(isOpen ? .circuitOpened : .circuitClosed) }
  }

  /// Changes the limit, and does what that requires.
  private func change(_ body: (inout Admission, Duration) -> [CatalogLimit.Grant]) {
    let now = clock.elapsed
    withAdmission { admission in
      let grants = body(&admission, now)
      admission.limitChanged(granting: grants, now: now)
    }
  }
}
