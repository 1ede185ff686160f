import EventLoop
import Locks

/// The peers that the log has mentioned already, so that it mentions each only once.
final class WarnedPeers: @unchecked Sendable {
  // Sendable: `peers` is touched only under `lock`.
  private let lock = Mutex()
  private var peers: Set<IPAddress?> = []

  /// The most peers that are remembered: more than a deployment has proxies, and few enough to read in a log. An
  /// attacker that can forge addresses must not be able to fill memory or log with them.
  static let maximum = 256

  /// What to do about a peer.
  enum Verdict { case new, known, tooMany }

  /// Notes a peer by its address or network; nil for a peer on a Unix-domain socket.
  func note(_ peer: IPAddress?) -> Verdict {
    lock.withLock {
      if peers.contains(peer) { return .known }
      guard peers.count < Self.maximum else { return .tooMany }
      peers.insert(peer)
      return .new
    }
  }
}
