import EventLoop
import Locks

/// The peers that something has been said about, so that it is said once of each.
final class NotedPeers: @unchecked Sendable {
  // Sendable: `peers` is touched only under `lock`.
  private let lock = Mutex()
  private var peers: Set<IPAddress?> = []

  /// The most that are remembered: more than anybody has proxies, and few enough to be read in a log. Whoever can make
  /// up addresses must not be able to fill memory or log with them.
  static let maximum = 256

  /// What there is to do about a peer.
  enum Verdict { case new, known, tooMany }

  /// Notes a peer by what one customer holds at least; nil for one on a Unix-domain socket.
  func note(_ peer: IPAddress?) -> Verdict {
    lock.withLock {
      if peers.contains(peer) { return .known }
      guard peers.count < Self.maximum else { return .tooMany }
      peers.insert(peer)
      return .new
    }
  }
}
