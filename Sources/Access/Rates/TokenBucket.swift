/// The arithmetic of a token bucket, which is all in one moment: when the bucket will be full again.
///
/// This is the generic cell rate algorithm (ITU-T I.371, annex A, "theoretical arrival time"). The moment of a full
/// bucket has passed. Each token taken moves the moment one interval ahead, but never further than an empty bucket
/// takes to fill. So a bucket needs only eight bytes and no refilling, and a bucket without an entry is full.
///
/// All moments and times are nanoseconds of one monotonic clock.
struct TokenBucket: Sendable, Equatable {
  /// How many tokens it holds.
  let capacity: Int
  /// How long one token takes to come.
  let interval: Int64
  /// How long an empty bucket takes to fill.
  let span: Int64

  /// The bucket of a rate. A rate outside of its ranges, such as ``Rate/perSecondRange``, is clamped to them.
  init(_ rate: Rate) {
    let range = Rate.perSecondRange
    // Written so that NaN, which compares with nothing, ends at the lower bound.
    let perSecond = rate.perSecond >= range.upperBound ? range.upperBound : max(range.lowerBound, rate.perSecond)
    capacity = min(max(rate.burst, Rate.burstRange.lowerBound), Rate.burstRange.upperBound)
    // From 1000 to 10^11, so the rounding is at most one part in 2000, and the span at most 10^17.
    interval = Int64((1e9 / perSecond).rounded())
    span = interval * Int64(capacity)
  }

  /// The result of taking one token.
  struct Outcome: Equatable {
    /// When the bucket is full again, if the token is taken.
    let fullAt: Int64
    /// And if it is not: sooner than was thought, if another rate had thought so.
    let untakenFullAt: Int64
    /// How many tokens are left behind it.
    let remaining: Int
    /// How long until there is a token to take; 0 if there is one now.
    let wait: Int64
    /// How long the next request has to wait for a token.
    let nextWait: Int64
  }

  /// Takes one token at `now` from a bucket that will be full at `fullAt`.
  ///
  /// If another rate used the bucket before, the same time until it is full counts as debt at this rate, but never as
  /// more than an empty bucket. So after a reload a caller never waits longer than an empty bucket takes to fill at
  /// this rate. This requires the caller of this function to store ``Outcome/untakenFullAt``; otherwise the next
  /// attempt finds the old debt again.
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
