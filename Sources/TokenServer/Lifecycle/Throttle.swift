import EventLoop
import Locks
import Logging

/// Logs one message of each kind in ten seconds, and counts the suppressed ones.
final class Throttle: Sendable {
  private let logger: Logger
  private let kinds = Locked<[String: Entry]>([:])

  private struct Entry {
    var rest = LogRest()
    /// Whether a message was admitted, and its end has not been logged.
    var isOpen = true
  }

  private static let pause = Duration.seconds(10)

  init(_ logger: Logger) { self.logger = logger }

  /// Logs a message unless there was one of its kind a short time ago. The text of others, which may be many, is not made.
  func log(
    _ kind: String, at level: Logger.Level = .warning, _ message: @autoclosure () -> Logger.Message,
    _ metadata: @autoclosure () -> Logger.Metadata = [:]
  ) {
    if let suppressed = admit(kind) { logger.log(level: level, message(), metadata(), suppressed: suppressed) }
  }

  /// Returns the number of suppressed messages of this kind before this one; nil if this one is suppressed too.
  func admit(_ kind: String) -> Int? {
    kinds.withLock { kinds in
      let suppressed = kinds[kind, default: Entry()].rest.admit(at: .now, pause: Self.pause)
      if suppressed != nil { kinds[kind]?.isOpen = true }
      return suppressed
    }
  }

  /// Logs the end of a state, if a message about it was admitted since the last end. So its last line is true.
  func end(_ kind: String, _ message: Logger.Message, _ metadata: @autoclosure () -> Logger.Metadata = [:]) {
    let isOpen = kinds.withLock { kinds in
      defer { kinds[kind]?.isOpen = false }
      return kinds[kind]?.isOpen ?? false
    }
    if isOpen { logger.notice(message, metadata: metadata()) }
  }
}

extension Logger {
  /// Logs a message, and how many others like it were suppressed before.
  func log(level: Level, _ message: Message, _ metadata: Metadata, suppressed: Int) {
    let count: Metadata = suppressed > 0 ? ["suppressed": "\(suppressed)"] : [:]
    log(level: level, message, metadata: metadata.merging(count) { $1 })
  }
}

/// Decides which lines about single peers the log gets: one for each kind and peer, and then none about both for a time.
/// Beyond a number of peers each kind has one line in ten seconds: forged addresses must not fill memory or log.
struct PeerThrottle: Sendable {
  /// The maximum number of remembered kinds and peers, and of lines about single peers in `pause`.
  let maximum: Int
  let pause: Duration
  private var known: [Key: LogRest] = [:]
  private var others: [String: LogRest] = [:]
  /// Before this moment no entry of `known` expires, so a sweep would free no room.
  private var nextSweep = Deadline.never

  static let pauseOfOthers = Duration.seconds(10)

  private struct Key: Hashable {
    let kind: String
    let peer: IPAddress?
  }

  init(maximum: Int, pause: Duration) { (self.maximum, self.pause) = (maximum, pause) }

  /// Returns the number of suppressed lines of this kind before this one; nil if this one is suppressed too. The peer is
  /// the smallest network that one customer holds; nil for a Unix-domain socket.
  mutating func admit(_ kind: String, of peer: IPAddress?, at now: Deadline) -> Int? {
    if known.count >= maximum, now >= nextSweep {
      known = known.filter { now < $0.value.end }
      nextSweep = known.values.map(\.end).min() ?? .never
    }
    let key = Key(kind: kind, peer: peer)
    guard known[key] != nil || known.count < maximum else {
      return others[kind, default: LogRest()].admit(at: now, pause: Self.pauseOfOthers)
    }
    nextSweep = min(nextSweep, now.advanced(by: pause))
    return known[key, default: LogRest()].admit(at: now, pause: pause)
  }
}

/// The time after a log line in which others like it are suppressed and counted.
private struct LogRest {
  private(set) var end = Deadline(nanoseconds: 0)
  private var suppressed = 0

  /// Returns the number of lines that were suppressed before this one; nil if this one is suppressed too.
  mutating func admit(at now: Deadline, pause: Duration) -> Int? {
    guard now >= end else {
      suppressed += 1
      return nil
    }
    end = now.advanced(by: pause)
    defer { suppressed = 0 }
    return suppressed
  }
}
