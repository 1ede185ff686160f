import EventLoop
import Locks
import TLS

/// Decides which failed TLS sessions get a log line: one for each cause and peer, then no line about both for ten
/// minutes.
///
/// The number of remembered peers is bounded. Beyond it, each cause gets one line in ten seconds.
final class FailedHandshakes: @unchecked Sendable {
  // Sendable: everything mutable is touched only under `lock`.
  private let lock = Mutex()
  private var known: [Key: Entry] = [:]
  private var others: [TLSFailure: Entry] = [:]
  /// Before this moment no entry of `known` expires, so a sweep would free no room.
  private var nextSweep = Deadline.never

  /// The most causes and peers that are remembered, and so the most lines in ten minutes about peers one by one.
  static let maximum = 1024
  static let pause = Duration.seconds(600)
  static let pauseOfOthers = Duration.seconds(10)

  private struct Key: Hashable {
    let failure: TLSFailure
    let peer: IPAddress?
  }

  private struct Entry {
    var quietUntil: Deadline
    var suppressed = 0
  }

  /// How many lines of this kind were held back before this one; nil if this one is to be held back.
  ///
  /// - Parameter peer: What one customer holds at least; nil for a Unix-domain socket.
  func admit(_ failure: TLSFailure, of peer: IPAddress?, at now: Deadline) -> Int? {
    lock.withLock {
      let key = Key(failure: failure, peer: peer)
      makeRoom(at: now)
      if known[key] != nil || known.count < Self.maximum {
        return Self.admit(&known[key], at: now, pause: Self.pause, end: &nextSweep)
      }
      var unused = Deadline.never
      return Self.admit(&others[failure], at: now, pause: Self.pauseOfOthers, end: &unused)
    }
  }

  private static func admit(_ entry: inout Entry?, at now: Deadline, pause: Duration, end: inout Deadline) -> Int? {
    if let present = entry, now < present.quietUntil {
      entry?.suppressed += 1
      return nil
    }
    let suppressed = entry?.suppressed ?? 0
    let quietUntil = now.advanced(by: pause)
    entry = Entry(quietUntil: quietUntil)
    end = min(end, quietUntil)
    return suppressed
  }

  private func makeRoom(at now: Deadline) {
    guard known.count >= Self.maximum, now >= nextSweep else { return }
    known = known.filter { now < $0.value.quietUntil }
    nextSweep = known.values.map(\.quietUntil).min() ?? .never
  }
}
