/// How many requests were sent in each fiftieth of the last five seconds, and how many of these were refused.
struct SendHistory: Sendable {
  private static let slots = 256
  private static let slotsPerSecond = 50.0

  private var sent = [Int32](repeating: 0, count: slots)
  private var refused = [Int32](repeating: 0, count: slots)
  /// The number of the newest slot, counted from the clock's zero.
  private var newest = 0
  /// All that were sent and not refused.
  private var accepted = 0
  /// When the first request of all was sent.
  private var beginning: Double?

  /// A request is sent.
  mutating func record(at time: Double) {
    if beginning == nil { beginning = time }
    let slot = Self.slot(time)
    if slot > newest {
      let stale = min(slot - newest, Self.slots)
      for index in (slot - stale + 1)...slot {
        sent[index % Self.slots] = 0
        refused[index % Self.slots] = 0
      }
      newest = slot
    }
    sent[slot % Self.slots] &+= 1
    accepted += 1
  }

  /// A request that was sent at `time` has been refused.
  mutating func refuse(sentAt time: Double) {
    let slot = Self.slot(time)
    guard slot > newest - Self.slots, slot <= newest else { return }
    refused[slot % Self.slots] &+= 1
    accepted -= 1
  }

  /// Requests sent in the time before `end`, and those of them that were refused.
  ///
  /// - Parameter window: The time in seconds, at most five.
  /// - Returns: Also the time in seconds in which there were any: `window` at most, one second at least.
  func count(before end: Double, window: Double) -> (sent: Int, refused: Int, seconds: Double) {
    let last = min(Self.slot(end), newest)
    let first = max(last - Int(window * Self.slotsPerSecond) + 1, newest - Self.slots + 1, 0)
    var sums = (sent: 0, refused: 0, seconds: max(min(window, end - (beginning ?? end)), 1))
    guard first <= last else { return sums }
    for slot in first...last {
      sums.sent += Int(sent[slot % Self.slots])
      sums.refused += Int(refused[slot % Self.slots])
    }
    return sums
  }

  /// All requests sent before then, at most five seconds ago, and not refused.
  func accepted(before end: Double) -> Int {
    var count = accepted
    for slot in stride(from: newest, to: max(Self.slot(end), newest - Self.slots, -1), by: -1) {
      count -= Int(sent[slot % Self.slots] - refused[slot % Self.slots])
    }
    return count
  }

  /// How long it takes until at most so many requests have gone in the last second, if none goes: those that were refused
  /// do not count.
  func timeUntil(atMost most: Int, now: Double) -> Double {
    let last = Self.slot(now)
    var count = 0
    for slot in stride(from: newest, to: max(last - Int(Self.slotsPerSecond), newest - Self.slots, -1), by: -1) {
      count += Int(sent[slot % Self.slots] - refused[slot % Self.slots])
      if count > most { return max(Double(slot + 1) / Self.slotsPerSecond + 1 - now, 0) }
    }
    return 0
  }

  private static func slot(_ time: Double) -> Int { max(Int(time * slotsPerSecond), 0) }
}

/// What a token bucket would hold that fills at the learned rate, holds a second's requests at most, and was empty at the
/// last 429. When it is overdrawn and nothing was refused, the quota is no such bucket: it allows more.
struct ImaginedBucket: Sendable {
  /// Requests; below zero if it is overdrawn.
  private(set) var stored = 0.0
  private var updated = 0.0

  /// A request goes.
  mutating func take(rate: Double, now: Double) {
    stored = min(stored + (now - updated) * rate, rate) - 1
    updated = now
  }

  /// A request was refused.
  mutating func empty(now: Double) {
    (stored, updated) = (0, now)
  }
}
