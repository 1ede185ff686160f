import EventLoop

/// The time that the messages of a channel take of an event loop: at most a part of it, so that a flood of messages does
/// not delay the callers of the loop.
struct MessageShare: Sendable {
  /// The part of the time: a fifth. Callers have the rest.
  static let part = 5
  /// The time that messages may take in a row: 500 µs. A caller who comes meanwhile waits no longer.
  static let most = Duration.microseconds(500)

  /// When the time that messages have taken is a fifth of the time that has passed.
  private var restedAt = Deadline(nanoseconds: 0)

  /// Adds the time that messages took. Returns until when the loop reads no further ones; nil if it may read at once.
  mutating func add(from start: Deadline, to end: Deadline) -> Deadline? {
    restedAt = max(restedAt, start).advanced(by: end.duration(since: start) * Self.part)
    return restedAt > end.advanced(by: Self.most * (Self.part - 1)) ? restedAt : nil
  }
}
