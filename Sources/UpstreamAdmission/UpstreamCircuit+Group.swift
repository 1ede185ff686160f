/// News about the circuit of one replica for the others.
public enum CircuitNews: Sendable, Equatable {
  /// The circuit has opened, or a probe has failed. The value is the pause before the next probe.
  case open(pause: Duration)
  /// The upstream responds again.
  case closed

  /// The news as three bytes: a kind, and the pause in milliseconds.
  public var bytes: [UInt8] {
    guard case .open(let pause) = self else { return [0, 0, 0] }
    let length = UInt16(clamping: Int(pause.inSeconds * 1000))
    return [1, UInt8(truncatingIfNeeded: length >> 8), UInt8(truncatingIfNeeded: length)]
  }

  /// Reads news of another replica. Returns nil for anything else.
  public init?(_ bytes: ArraySlice<UInt8>) {
    let bytes = Array(bytes)
    guard bytes.count == 3, bytes[0] < 2 else { return nil }
    self = bytes[0] == 1 ? .open(pause: .milliseconds(Int(bytes[1]) << 8 | Int(bytes[2]))) : .closed
  }
}

// The circuit in a group of replicas. Only the circuit of the whole upstream is shared, not those of resources.
extension UpstreamCircuit {
  /// The time within which this replica's own success counts for more than another's failures: 1 s. That one may have lost
  /// its way to the upstream.
  static let contradiction = Duration.seconds(1)
  /// The time for which the others' failures do not count after the upstream has responded to this replica while its
  /// circuit was open because of them: 1 min. So a replica without a way to the upstream costs each other one a pause a
  /// minute at most.
  static let doubt = Duration.seconds(60)
  /// The time for which a replica's news that its circuit is open counts, unless it says otherwise: 15 s. While it has
  /// requests, it says so again every few seconds.
  private static let lifetime = Duration.seconds(15)
  /// The most replicas whose news counts: 1,024.
  private static let mostReplicas = 1024
  /// The time over which replicas spread their probes after the one that knows best: 500 ms for each, 2 s at most.
  private static let spread = (each: Duration.milliseconds(500), most: Duration.seconds(2))

  /// What the others should know now.
  public var news: CircuitNews { isClosed ? .closed : .open(pause: upstream.pause) }

  /// Sets the number of replicas. They share the second opinions.
  public mutating func use(replicas: Int) {
    opinions.replicas = max(replicas, 1)
  }

  /// Takes another replica's news.
  ///
  /// The circuit opens if at least two others, and half of the others, say that theirs is open. A single one may have lost
  /// its own way to the upstream.
  ///
  /// - Parameter spread: A number from 0 to 1 that differs among replicas and news, so that one of them probes first.
  public mutating func learn(_ news: CircuitNews, of replica: UInt64, spread: Double, now: Duration) {
    switch news {
    case .open(let pause):
      openElsewhere = openElsewhere.filter { now - $0.value <= Self.lifetime }
      guard openElsewhere[replica] != nil || openElsewhere.count < Self.mostReplicas else { return }
      openElsewhere[replica] = now
      if let lastSuccess, now - lastSuccess <= Self.contradiction || now < ignoresNewsUntil { return }
      guard openElsewhere.count >= 2, 2 * openElsewhere.count >= opinions.replicas - 1 else { return }
      let pause = min(max(pause, CircuitLimits.firstPause), CircuitLimits.longestPause)
      let most = min(Self.spread.each * max(opinions.replicas - 1, 1), Self.spread.most)
      upstream.learn(pause: pause + Duration(inSeconds: most.inSeconds * min(max(spread, 0.1), 1)), now: now)
    case .closed:
      openElsewhere[replica] = nil
      let wasClosed = isClosed
      upstream.learnRecovery(now: now)
      if !wasClosed, isClosed { evidence.forgetFailures() }
    }
  }
}
