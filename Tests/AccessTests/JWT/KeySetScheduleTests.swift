import Testing

@testable import Access

@Suite("The schedule of a key set")
struct KeySetScheduleTests {
  @Test("allows the first fetch immediately, for any reason", arguments: KeySetSchedule.Occasion.allCases)
  func first(_ occasion: KeySetSchedule.Occasion) {
    let schedule = Schedule()
    #expect(schedule.nextAt <= 0)
    #expect(schedule.begin(for: occasion, now: 0))
    #expect(schedule.isFetching)
    #expect(!schedule.begin(for: .age, now: 100_000))
    #expect(!schedule.begin(for: .unknownKey, now: 100_000))
  }

  @Test(
    "allows another fetch when the lifetime of the set has passed",
    arguments: [
      (nil, 900), (0, 300), (-5, 300), (299, 300), (1000, 1000), (86_400, 86_400), (86_401, 86_400), (Int.max, 86_400),
    ] as [(Int?, Int)])
  func age(_ example: (maxAge: Int?, lifetime: Int)) {
    let schedule = fetched(at: 10, maxAge: example.maxAge)
    #expect(schedule.nextAt == 10 + example.lifetime)
    #expect(!schedule.begin(for: .age, now: 9 + example.lifetime))
    #expect(schedule.begin(for: .age, now: 10 + example.lifetime))
  }

  @Test("allows a fetch for an unknown key immediately, and the next 30 seconds after that fetch began")
  func unknownKeys() {
    let schedule = Schedule()
    #expect(schedule.begin(for: .age, now: 0))
    schedule.succeeded(now: 8)
    #expect(schedule.begin(for: .unknownKey, now: 8))
    schedule.succeeded(now: 9)
    #expect(!schedule.begin(for: .unknownKey, now: 37))
    #expect(schedule.begin(for: .unknownKey, now: 38))
    schedule.succeeded(now: 39)
    #expect(!schedule.begin(for: .unknownKey, now: 67))
    #expect(schedule.begin(for: .unknownKey, now: 68))
  }

  @Test("allows few fetches for many unknown keys")
  func flood() {
    let schedule = fetched(at: 0)
    var fetches = 0
    for now in 0..<600 {
      for _ in 0..<1000 where schedule.begin(for: .unknownKey, now: now) {
        fetches += 1
        schedule.succeeded(now: now)
      }
    }
    #expect(fetches == 20)
  }

  @Test("backs off while the provider is down, and keeps the present set")
  func backOff() {
    let schedule = fetched(at: 0)
    var now = 900
    for pause in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
      #expect(schedule.begin(for: .age, now: now))
      schedule.failed(now: now)
      #expect(schedule.nextAt == now + pause)
      #expect(!schedule.begin(for: .age, now: now + pause - 1))
      #expect(!schedule.begin(for: .unknownKey, now: now + pause - 1))
      now += pause
    }
    #expect(schedule.fetchedAt == 0)
    #expect(schedule.begin(for: .age, now: now))
    schedule.succeeded(now: now)
    #expect(schedule.fetchedAt == now)
    #expect(schedule.nextAt == now + 900)
  }

  @Test("does not fetch more often for unknown keys while the provider is down")
  func unknownKeysWhileDown() {
    let schedule = fetched(at: 0)
    var attempts = 0
    for now in 1...600 where schedule.begin(for: .unknownKey, now: now) {
      attempts += 1
      schedule.failed(now: now)
    }
    #expect(attempts == 13)
  }

  @Test("allows a fetch soon after the first fetch failed, for an unknown key as well")
  func neverFetched() {
    let schedule = Schedule()
    #expect(schedule.begin(for: .age, now: 0))
    schedule.failed(now: 10)
    #expect(!schedule.begin(for: .unknownKey, now: 10))
    #expect(schedule.begin(for: .unknownKey, now: 11))
  }

  @Test("allows failures without end and without overflow")
  func forever() {
    let schedule = Schedule()
    for round in 0..<200 {
      #expect(schedule.begin(for: .age, now: round * 100))
      schedule.failed(now: round * 100)
    }
  }

  private func fetched(at now: Int, maxAge: Int? = nil) -> Schedule {
    let schedule = Schedule()
    _ = schedule.begin(for: .age, now: now)
    schedule.succeeded(now: now, maxAge: maxAge)
    return schedule
  }
}

/// A schedule by reference, because the testing macros cannot call mutating methods.
private final class Schedule {
  private var schedule = KeySetSchedule()

  var isFetching: Bool { schedule.isFetching }
  var fetchedAt: Int? { schedule.fetchedAt }
  var nextAt: Int { schedule.nextAt }

  func begin(for occasion: KeySetSchedule.Occasion, now: Int) -> Bool { schedule.begin(for: occasion, now: now) }
  func succeeded(now: Int, maxAge: Int? = nil) { schedule.succeeded(now: now, maxAge: maxAge) }
  func failed(now: Int) { schedule.failed(now: now) }
}
