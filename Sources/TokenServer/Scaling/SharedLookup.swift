import CatalogProxy
import EventLoop
import HTTPCache
import Redis

/// One lookup. Confined to its loop, except ``cancel()``, ``ended(_:)`` and ``timePassed()``.
final class RedisLookup: SharedLookup, @unchecked Sendable {
  // Sendable by confinement.
  let key: SharedEntryKey
  private let owner: LoopSharedCache
  private var state: SharedLookupState
  private var completion: ((SharedFinding) -> Void)?

  init(
    _ key: SharedEntryKey, _ owner: LoopSharedCache, until end: Duration,
    _ completion: @escaping @Sendable (SharedFinding) -> Void
  ) {
    (self.key, self.owner, self.completion) = (key, owner, completion)
    state = SharedLookupState(until: end)
  }

  private var loop: IOLoop { owner.client.loop }
  private var cache: RedisSharedCache { owner.cache }

  func begin() {
    cache.add(self)
    perform(.ask)
  }

  private func perform(_ step: SharedLookupState.Step) {
    loop.assertCurrent()
    switch step {
    case .none: break
    case .wait(let time): cache.note(self, waitsUntil: time)
    case .ask:
      cache.note(self, waitsUntil: nil)
      owner.ask(key) { [self] reply in perform(state.replied(reply, now: loop.now.elapsed)) }
    case .done(let finding): finish(finding)
    }
  }

  private func finish(_ finding: SharedFinding) {
    guard let completion = completion.take() else { return }
    let isLeading = if case .lead = finding { true } else { false }
    cache.remove(self, leadsSince: isLeading ? loop.now : nil)
    completion(finding)
  }

  func cancel() { loop.post { self.perform(self.state.cancel()) } }

  func ended(_ outcome: SharedFetchOutcome) { loop.post { self.perform(self.state.ended(outcome)) } }

  func timePassed() { loop.post { self.perform(self.state.passed(now: self.loop.now.elapsed)) } }
}

/// One lookup: its questions to the store and its waits, as a value. A message about the end of a fetch may overtake the
/// reply to the question, because it comes over another connection, so a lookup takes messages from its first question on.
struct SharedLookupState: Sendable {
  /// The lifetime of an announcement: 2 s. Its replica renews it every second, so it lapses soon if that replica dies, and
  /// not while Apple is slow.
  static let lease = Duration.seconds(2)

  enum Reply: Sendable, Equatable {
    case entry([UInt8])
    case lead(stale: [UInt8]?)
    /// Another replica fetches the response. Its announcement lapses after this time.
    case follow(lapsesIn: Duration)
  }

  enum Step: Sendable, Equatable {
    case ask
    /// Call ``passed(now:)`` at this time on the monotonic clock, or a little later.
    case wait(until: Duration)
    case done(SharedFinding)
    case none
  }

  private enum Phase: Equatable {
    /// `ended`: what a message has told since the question.
    case asking(ended: SharedFetchOutcome?)
    case waiting(until: Duration)
    case done
  }

  private let end: Duration
  private var phase = Phase.asking(ended: nil)
  private var hasWaited = false

  /// Creates a lookup that asks its first question now, and waits for another replica until `end` on the monotonic clock.
  init(until end: Duration) { self.end = end }

  /// Takes a reply; nil if none came in time.
  mutating func replied(_ reply: Reply?, now: Duration) -> Step {
    guard case .asking(let ended) = phase else { return .none }
    switch reply {
    case nil: return finish(.alone(.noReply))
    case .entry(let bytes)?: return finish(.entry(bytes, hasWaited: hasWaited))
    case .lead(let stale)?: return finish(.lead(stale: stale))
    case .follow(let time)?:
      hasWaited = true
      if let ended { return follow(ended) }
      guard now < end else { return finish(.alone(.waitedInVain)) }
      // The store may say anything.
      let until = min(now + min(max(time, .zero), Self.lease), end)
      phase = .waiting(until: until)
      return .wait(until: until)
    }
  }

  /// Takes a message about the end of the fetch.
  mutating func ended(_ outcome: SharedFetchOutcome) -> Step {
    switch phase {
    case .asking:
      phase = .asking(ended: outcome)
      return .none
    case .waiting: return follow(outcome)
    case .done: return .none
    }
  }

  mutating func passed(now: Duration) -> Step {
    guard case .waiting(let until) = phase, now >= until else { return .none }
    // The other replica is gone, or out of reach of the store. One of those that wait takes its place.
    return now < end ? ask() : finish(.alone(.waitedInVain))
  }

  /// Ends the lookup, because the store or the caller is gone.
  mutating func cancel() -> Step { phase == .done ? .none : finish(.alone(.noReply)) }

  private mutating func follow(_ outcome: SharedFetchOutcome) -> Step {
    outcome == .unshared ? finish(.alone(.waitedInVain)) : ask()
  }

  private mutating func ask() -> Step {
    phase = .asking(ended: nil)
    return .ask
  }

  private mutating func finish(_ finding: SharedFinding) -> Step {
    phase = .done
    return .done(finding)
  }
}
