/// The difference between this process's clock and the store's. Each reply of the store bounds it: the store took its time
/// after the command was sent, and before the reply arrived.
///
/// The bounds of all replies together are narrower than the round trip. If they contradict each other, a clock has been
/// set, or another server has taken over: then only the last reply counts. Times are seconds.
struct StoreClock: Sendable {
  private var bounds: ClosedRange<Double>?

  /// The store's time less this process's time. Nil before the first reply.
  var offset: Double? { bounds.map { ($0.lowerBound + $0.upperBound) / 2 } }

  mutating func note(_ time: Double, sentAt: Double, now: Double) {
    let new = (time - now)...max(time - sentAt, time - now)
    guard let bounds, bounds.overlaps(new) else { return self.bounds = new }
    self.bounds = bounds.clamped(to: new)
  }

  func storeTime(at time: Double) -> Double? { offset.map { time + $0 } }
  func localTime(at time: Double) -> Double? { offset.map { time - $0 } }
}
