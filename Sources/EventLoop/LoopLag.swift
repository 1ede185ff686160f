import Locks
import Synchronization

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
