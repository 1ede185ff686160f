import EventLoop

/// Decides whether work that has waited is still worth doing, as CoDel does for packets (RFC 8289).
///
/// A burst may wait: the server does its work, and the wait ends. If work is late for longer than `ServerLimits.burst`,
/// there is a standing queue: more arrives than the server can do. Then only a short queue is useful, because a longer
/// one makes everything late and serves no more.
struct Lateness {
  private var lateSince: Deadline?
  private var lastSeen = Deadline(nanoseconds: 0)

  /// Returns whether to do work that has waited for `delay`, and records the delay.
  mutating func admits(_ delay: Duration, at now: Deadline, limits: ServerLimits) -> Bool {
    let isContinued = now.duration(since: lastSeen) <= limits.burst
    lastSeen = now
    guard delay > limits.promptWork else {
      lateSince = nil
      return true
    }
    let since = isContinued ? lateSince ?? now : now
    lateSince = since
    return now.duration(since: since) < limits.burst || delay <= limits.lateWork
  }
}
