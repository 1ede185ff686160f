import Glibc
import Locks
import Synchronization

/// The moment on the monotonic clock when a wait ends, in nanoseconds since an arbitrary start.
public struct Deadline: Sendable, Hashable, Comparable {
  /// Nanoseconds of `CLOCK_MONOTONIC`.
  public let nanoseconds: UInt64

  /// A moment that never comes.
  public static let never = Deadline(nanoseconds: .max)

  /// The present moment, read with one vDSO call and no system call.
  public static var now: Deadline {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return Deadline(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
  }

  /// Creates a moment from nanoseconds of the monotonic clock.
  public init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

  /// Returns this moment plus `duration`, or `never` if the sum overflows.
  public func advanced(by duration: Duration) -> Deadline {
    guard duration >= .zero else { return self }
    let (sum, overflow) = nanoseconds.addingReportingOverflow(duration.wholeNanoseconds)
    return overflow ? .never : Deadline(nanoseconds: sum)
  }

  /// Returns the duration from `earlier` to this moment, or zero if `earlier` is later.
  public func duration(since earlier: Deadline) -> Duration {
    guard self > earlier else { return .zero }
    return .nanoseconds(Int64(clamping: nanoseconds - earlier.nanoseconds))
  }

  /// Returns whether `left` is earlier.
  public static func < (left: Deadline, right: Deadline) -> Bool { left.nanoseconds < right.nanoseconds }
}

extension Duration {
  /// The nanoseconds of a duration that is not negative, rounded down; the maximum if they do not fit.
  ///
  /// A nanosecond has 10⁹ = 2⁹ · 5⁹ attoseconds. Without the factor 2⁹, durations of up to two hours fit into 64 bits,
  /// where a division is one instruction; with 128 bits it takes a hundred, and each wait needs one.
  package var wholeNanoseconds: UInt64 {
    let reduced = attoseconds >> 9
    if let short = UInt64(exactly: reduced) { return short / 1_953_125 }
    return UInt64(clamping: reduced / 1_953_125)
  }
}

/// A count of a loop's connections that wait without a deadline, which a peer that does nothing would hold forever. If there
/// is one at the end of a turn, a debug build stops, and a release build reports it in its metrics.
final class DeadlineCount: @unchecked Sendable {
  // Sendable: `current` and `isFatal` are confined to the loop, and the value for other threads is atomic.
  private var current = 0
  private let published = Atomic(0)
  /// Whether a debug build stops at such a connection. Only a test that has one sets it to false.
  var isFatal = true
  /// The count at the end of the last turn. Any thread may read it.
  var atEndOfTurn: Int { published.load(ordering: .relaxed) }

  /// Records a connection's new deadline: nil before it is open, and when it is closed.
  func changed(from old: Deadline?, to new: Deadline?) {
    if old == .never { current -= 1 }
    if new == .never { current += 1 }
  }

  /// Checks and publishes the count, when no more work is left before the loop waits.
  func endTurn() {
    assert(current == 0 || !isFatal, "\(current) connections wait without a deadline")
    if current != atEndOfTurn { published.store(current, ordering: .relaxed) }
  }
}

/// The times for which a loop kept ready events and passed deadlines waiting.
///
/// A turn's events wait at most for the end of the turn before, so a long turn is a delay for them. A turn that begins long
/// after the deadline that the loop waited for is one too: the system gave the thread no processor.
package struct LoopLag: Sendable {
  /// The longest delay of the present minute and of the one before.
  package private(set) var longest = Duration.zero
  /// The time spent in turns since the start.
  package private(set) var busy = Duration.zero
  /// The number of delays longer than ``tolerance`` since the start.
  package private(set) var lateTurns = 0

  /// The delay above which a turn counts as late: 100 ms, the time in which a health check must have its response.
  package static let tolerance = Duration.milliseconds(100)
  /// The time after which a longest delay is forgotten, at the latest twice that: 60 s, so that each scrape sees it.
  static let period = Duration.seconds(60)

  private var present = Duration.zero
  private var previous = Duration.zero
  private var periodBegan = Deadline(nanoseconds: 0)

  /// Records a turn, which had to begin at `due` at the latest.
  mutating func add(from began: Deadline, to ended: Deadline, due: Deadline) {
    let turn = ended.duration(since: began)
    busy += turn
    advance(to: ended)
    let delay = max(turn, began.duration(since: due))
    present = max(present, delay)
    if delay > Self.tolerance { lateTurns += 1 }
  }

  /// Returns these times at `now`. A turn that has not ended counts with its length so far.
  func reading(at now: Deadline, turnBegan: Deadline?) -> LoopLag {
    var reading = self
    if let turnBegan { reading.add(from: turnBegan, to: now, due: .never) }
    reading.advance(to: now)
    reading.longest = max(reading.present, reading.previous)
    return reading
  }

  private mutating func advance(to now: Deadline) {
    let age = now.duration(since: periodBegan)
    guard age >= Self.period else { return }
    previous = age >= Self.period * 2 ? .zero : present
    present = .zero
    periodBegan = now
  }
}

/// The record of a loop's delays. The loop writes it, and any thread reads it.
final class LoopLagRecord: Sendable {
  private let lag = Locked(LoopLag())
  /// The beginning of the turn in progress in nanoseconds; 0 while the loop waits.
  private let turnBegan = Atomic<UInt64>(0)

  private var presentBeginning: Deadline? {
    let nanoseconds = turnBegan.load(ordering: .relaxed)
    return nanoseconds == 0 ? nil : Deadline(nanoseconds: nanoseconds)
  }

  func turnBegan(at now: Deadline) { turnBegan.store(now.nanoseconds, ordering: .relaxed) }

  func turnEnded(from began: Deadline, to ended: Deadline, due: Deadline) {
    turnBegan.store(0, ordering: .relaxed)
    lag.withLock { $0.add(from: began, to: ended, due: due) }
  }

  var presentTurn: Duration { presentBeginning.map { Deadline.now.duration(since: $0) } ?? .zero }

  var reading: LoopLag {
    let began = presentBeginning
    return lag.withLock { $0 }.reading(at: .now, turnBegan: began)
  }
}
