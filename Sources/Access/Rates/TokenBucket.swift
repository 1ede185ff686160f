/// The arithmetic of a token bucket, which is all in one moment: when the bucket will be full again.
///
/// That is the generic cell rate algorithm (ITU-T I.371, annex A, its "theoretical arrival time"): a full bucket is one
/// whose moment has passed, and each token taken moves it one interval ahead, but never further ahead than it takes an
/// empty bucket to fill. So a bucket is eight bytes, nothing has to refill it, and one that nobody remembers is full.
///
/// All moments and times are nanoseconds of one monotonic clock.
struct TokenBucket: Sendable, Equatable {
  /// How many tokens it holds.
  let capacity: Int
  /// How long one token takes to come.
  let interval: Int64
  /// How long an empty bucket takes to fill.
  let span: Int64

  /// The bucket of a rate, which is brought into its ranges if it is outside, ``Rate/perSecondRange`` for one.
  init(_ rate: Rate) {
    let range = Rate.perSecondRange
    // Written so that NaN, which compares with nothing, ends at the lower bound.
    let perSecond = rate.perSecond >= range.upperBound ? range.upperBound : max(range.lowerBound, rate.perSecond)
    capacity = min(max(rate.burst, Rate.burstRange.lowerBound), Rate.burstRange.upperBound)
    // From 1000 to 10^11, so the rounding is at most one part in 2000, and the span at most 10^17.
    interval = Int64((1e9 / perSecond).rounded())
    span = interval * Int64(capacity)
  }

  /// What comes of taking one token.
  struct Outcome: Equatable {
    /// When the bucket is full again, if the token is taken.
    let fullAt: Int64
    /// And if it is not: sooner than was thought, if another rate had thought so.
    let untakenFullAt: Int64
    /// How many tokens are left behind it.
    let remaining: Int
    /// How long until there is a token to take; 0 if there is one now.
    let wait: Int64
    /// How long until there will be one for the next who asks.
    let nextWait: Int64
  }

  /// Takes one token at `now` from a bucket that will be full at `fullAt`.
  ///
  /// The bucket may have been another rate's a moment ago: it is then as empty as that many nanoseconds make it at this
  /// rate, and never emptier than empty, so that nobody pays for a reload longer than this rate's own burst takes. That
  /// holds if ``Outcome/untakenFullAt`` is remembered, else the old rate's debt would be found again at the next attempt.
  /// - Parameter now: A ``moment(_:)``.
  func take(fullAt: Int64, now: Int64) -> Outcome {
    let filled = now + span
    let debt = min(max(fullAt, now), filled)
    let after = debt + interval
    let spare = filled - after
    return Outcome(
      fullAt: after, untakenFullAt: debt, remaining: Int(max(0, spare) / interval), wait: max(0, -spare),
      nextWait: max(0, interval - spare))
  }

  /// A moment of the clock as the buckets count it; after 146 years, time stands still.
  static func moment(_ nanoseconds: UInt64) -> Int64 {
    // Half of what there is, so that a span always fits on top.
    Int64(min(nanoseconds, UInt64(Int64.max / 2)))
  }
}
