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

  func cancel() {
    loop.post { self.perform(self.state.cancel()) }
  }

  func ended(_ outcome: SharedFetchOutcome) {
    loop.post { self.perform(self.state.ended(outcome)) }
  }

  func timePassed() {
    loop.post { self.perform(self.state.passed(now: self.loop.now.elapsed)) }
  }
}
