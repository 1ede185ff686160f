/// The order in which a loop serves ready channels, so that a few costly ones, or many of one client, delay no other.
///
/// A loop with poll(2) has one list of descriptors, and serves all channels alike.
public enum Rank: Int, Sendable {
  /// In each turn, the loop serves all of these that are ready, or a crowd.
  case first
  /// Then come connections to servers: what they bring costs as much as many requests of clients.
  case second
  /// At last come connections that have to wait for others, because their client has more work than its share.
  case last

  /// The number of channels of this rank that the loop serves in a turn at most. Each turn costs one more system call for
  /// each rank with a ready channel.
  var most: Int {
    switch self {
    case .first, .last: IOLoop.crowd
    case .second: 16
    }
  }
}

/// The channels of a rank after the first. Their poller is itself a descriptor of the first rank's poller.
struct LowerRank {
  let poller: any Poller
  /// Whether the first rank's poller has reported this one in the present turn.
  var isReady = false
  private var lap = Lap()
  /// Whether there may be more ready channels than the present turn serves.
  private var isCrowded = false
  private let marker: Int32
  private let markerToken: SlotToken
  private let most: Int

  /// - Parameter marker: A descriptor that is always ready for writing. While a lap is measured, it waits in this rank for
  ///   its turn, like the channels.
  init(_ rank: Rank, poller: any Poller, marker: Int32) {
    self.poller = poller
    self.marker = marker
    markerToken = .lapMarker(of: rank)
    most = rank.most
  }

  /// How long a channel of this rank waits until it is served.
  var delay: Duration { lap.length }

  /// Appends the channels to serve in this turn. If the first rank `isCrowded`, its poller may not have reported this one.
  mutating func take(into ready: inout [SlotToken], at now: Deadline, ifReadyOr firstIsCrowded: Bool) {
    let mayBeReady = isReady || firstIsCrowded
    isReady = false
    if mayBeReady { poller.wait(milliseconds: 0, into: &ready) }
    isCrowded = ready.count >= most
    if lap.begins(isCrowded: isCrowded, at: now) {
      do {
        try poller.update(marker, from: [], to: .write, token: markerToken)
      } catch {
        // Out of memory or of epoll watches.
        lap.end()
      }
    }
  }

  /// Ends the lap, because its marker is served.
  mutating func endLap() {
    try? poller.update(marker, from: .write, to: [], token: markerToken)
    // This turn serves all, and the next one may come much later.
    isCrowded ? lap.end() : lap.clear()
  }
}

/// The time in which a loop serves every ready channel of a rank once.
struct Lap {
  private var last = Duration.zero
  private var began: Deadline?

  /// The last lap, or the present one if it is longer already.
  var length: Duration { max(last, began.map { Deadline.now.duration(since: $0) } ?? .zero) }

  /// Returns whether a lap begins. Then call `end` when the loop serves what is ready from now on. Without a crowd, every
  /// turn serves all.
  mutating func begins(isCrowded: Bool, at now: Deadline) -> Bool {
    guard began == nil else { return false }
    guard isCrowded else {
      last = .zero
      return false
    }
    began = now
    return true
  }

  mutating func end() {
    last = began.map { Deadline.now.duration(since: $0) } ?? .zero
    began = nil
  }

  mutating func clear() {
    (last, began) = (.zero, nil)
  }
}
