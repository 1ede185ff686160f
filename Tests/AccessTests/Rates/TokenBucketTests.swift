import TestSupport
import Testing

@testable import Access

@Suite("A token bucket")
struct TokenBucketTests {
  /// From the slowest to the fastest, from the smallest to the largest, and fractions that nanoseconds do not divide.
  static let rates: [Rate] = [
    Rate(perSecond: 0.01, burst: 1), Rate(perSecond: 0.01, burst: 1_000_000), Rate(perSecond: 1.0 / 3, burst: 2),
    Rate(perSecond: 5, burst: 20), Rate(perSecond: 7, burst: 1), Rate(perSecond: 999.9, burst: 3),
    Rate(perSecond: 1_000_000, burst: 1), Rate(perSecond: 1_000_000, burst: 1_000_000),
  ]

  /// Pauses of every size up to more than the time to fill the bucket: bursts, trickles and silences.
  static func pause(for bucket: TokenBucket, using random: inout SplitMix) -> Int64 {
    switch Int.random(in: 0..<10, using: &random) {
    case 0..<4: 0
    case 4..<6: .random(in: 0...bucket.interval, using: &random)
    case 6..<8: bucket.interval - .random(in: 0...1, using: &random)
    case 8: .random(in: 0...bucket.span, using: &random)
    default: bucket.span + .random(in: 0...2, using: &random)
    }
  }

  @Test(
    "allows the same requests as a textbook bucket, and reports the same rest and wait",
    arguments: rates)
  func model(_ rate: Rate) {
    let bucket = TokenBucket(rate)
    for seed in 0..<20 {
      var random = SplitMix(seed: UInt64(seed))
      var model = NaiveBucket(interval: bucket.interval, tokens: rate.burst)
      var (now, fullAt) = (Int64(0), Int64.min)
      for _ in 0..<500 {
        now += Self.pause(for: bucket, using: &random)
        let outcome = bucket.take(fullAt: fullAt, now: now)
        let isAllowed = model.take(at: now)
        #expect((outcome.wait == 0) == isAllowed)
        #expect(outcome.remaining == model.tokens)
        fullAt = isAllowed ? outcome.fullAt : outcome.untakenFullAt
        #expect((isAllowed ? outcome.nextWait : outcome.wait) == model.wait)
      }
    }
  }

  @Test("allows its burst immediately and then one request in each interval", arguments: rates)
  func limits(_ rate: Rate) {
    let bucket = TokenBucket(rate)
    let burst = min(rate.burst, 1000)
    var fullAt = bucket.span - bucket.interval * Int64(burst)  // The bucket holds `burst` tokens.
    for left in (0..<burst).reversed() {
      let outcome = bucket.take(fullAt: fullAt, now: 0)
      #expect(outcome.wait == 0 && outcome.remaining == left)
      fullAt = outcome.fullAt
    }
    #expect(fullAt == bucket.span)
    #expect(bucket.take(fullAt: fullAt, now: 0).wait == bucket.interval)
    #expect(bucket.take(fullAt: fullAt, now: bucket.interval - 1).wait == 1)
    #expect(bucket.take(fullAt: fullAt, now: bucket.interval).wait == 0)
  }

  @Test("with a new rate never requires a longer wait than one token at the new rate")
  func reload() {
    for before in Self.rates.map(TokenBucket.init) {
      for after in Self.rates.map(TokenBucket.init) {
        let now: Int64 = 1_000_000_000
        let outcome = after.take(fullAt: now + before.span, now: now)
        #expect(outcome.wait <= after.interval)
        #expect(outcome.remaining < after.capacity)
        #expect(outcome.untakenFullAt <= now + after.span)
        #expect(after.take(fullAt: outcome.untakenFullAt, now: now + outcome.wait).wait == 0)
      }
    }
  }

  @Test(
    "does not trap on rates out of range",
    arguments: [
      (Double.nan, 0), (.infinity, .max), (-.infinity, .min), (0, -1), (-1, 0), (.leastNonzeroMagnitude, .max),
      (.greatestFiniteMagnitude, .min), (-.nan, 5),
    ])
  func nonsense(_ perSecond: Double, _ burst: Int) {
    let bucket = TokenBucket(Rate(perSecond: perSecond, burst: burst))
    #expect(Rate.burstRange.contains(bucket.capacity))
    #expect((1000...100_000_000_000).contains(bucket.interval))
    for now in [0, 1, UInt64(Int64.max), .max].map(TokenBucket.moment) {
      for fullAt in [Int64.min, 0, now, .max] {
        let outcome = bucket.take(fullAt: fullAt, now: now)
        #expect(outcome.wait <= bucket.interval)
      }
    }
  }

  @Test(
    "keeps its rate in the long run",
    arguments: [(0.01, 0.0005), (3, 0.0005), (1e6, 0), (700_000, 0.0005), (999_999, 0.0005)])
  func precision(_ perSecond: Double, _ error: Double) {
    let real = 1e9 / Double(TokenBucket(Rate(perSecond: perSecond, burst: 1)).interval)
    #expect(abs(real - perSecond) <= perSecond * error)
  }
}
