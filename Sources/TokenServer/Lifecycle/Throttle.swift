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

  /// Logs a message unless there was one of its kind a short time ago. The text of others is not even made, because
  /// they may be many when the server has no time.
  func log(
    _ kind: String, at level: Logger.Level = .warning, _ message: @autoclosure () -> Logger.Message,
    _ metadata: @autoclosure () -> Logger.Metadata = [:]
  ) {
    guard let suppressed = admit(kind) else { return }
    var metadata = metadata()
    if suppressed > 0 { metadata["suppressed"] = "\(suppressed)" }
    logger.log(level: level, message(), metadata: metadata)
  }

  /// Returns the number of suppressed messages of this kind before this one; nil if this one is suppressed too.
  func admit(_ kind: String) -> Int? {
    kinds.withLock { kinds in
      let suppressed = kinds[kind, default: Entry()].rest.admit(at: .now, pause: Self.pause)
      if suppressed != nil { kinds[kind]?.isOpen = true }
      return suppressed
    }
  }

  /// Logs the end of a state, if a message about it was admitted since the last end. So the log has as many ends as
  /// beginnings of a flapping state, and its last line is true.
  func end(_ kind: String, _ message: Logger.Message, _ metadata: @autoclosure () -> Logger.Metadata = [:]) {
    let isOpen = kinds.withLock { kinds in
      defer { kinds[kind]?.isOpen = false }
      return kinds[kind]?.isOpen ?? false
    }
    if isOpen { logger.notice(message, metadata: metadata()) }
  }
}

/// The time after a log line in which others like it are suppressed and counted.
struct LogRest {
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
