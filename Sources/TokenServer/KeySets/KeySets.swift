import Access
import Dispatch
import EventLoop
import Locks
import Logging
import ServerSettings

/// The keys that verify JWTs, for the whole process: those from files as last read, and those of providers, which the
/// server fetches and refreshes in the background. No fetch starts before `begin`, so a failed start leaves none in flight.
final class KeySets: Sendable {
  private let loops: [IOLoop]
  private let context: KeySetContext
  private let queue = DispatchQueue(label: "key-sets")
  private let state = Locked(State())

  private struct State {
    var current = KeySetTable()
    /// The counts of key sets that the settings no longer name, because totals must never decrease.
    var earlierCounts = KeySetCounts()
    /// The timer of the next refresh; nil before `begin` and after `close`.
    var timer: (any DispatchSourceTimer)?
  }

  /// The maximum time that `close` waits for cancelled fetches to end.
  private static let patience = DispatchTimeInterval.seconds(1)

  init(loops: [IOLoop], context: KeySetContext) { (self.loops, self.context) = (loops, context) }

  var table: KeySetTable { state.withLock { $0.current } }

  /// Returns the table to use next. A provider that the current table also names keeps its fetched keys. The server
  /// does not fetch keys of a new provider before `use`, unless a request needs them.
  func table(of named: NamedKeySets) -> KeySetTable {
    let earlier = table.remotes
    return KeySetTable(
      read: named.read,
      remotes: named.places.reduce(into: [:]) { remotes, next in
        remotes[next.key] = remote(next.key, at: next.value, replacing: earlier[next.key])
      })
  }

  private func remote(
    _ source: KeySetSource, at place: KeySetPlace, replacing earlier: RemoteKeySet?
  ) -> RemoteKeySet? {
    guard let earlier else {
      return loops.first.map { loop in
        RemoteKeySet(place, loop: loop, context: context) { [weak self] in self?.scheduleTimer() }
      }
    }
    // Without CAs of its own it keeps the system's, which it has read: the confined process may not read them again.
    switch source {
    case .url(_, .some), .issuer(_, .some): earlier.use(place)
    case .file, .url, .issuer: break
    }
    return earlier
  }

  /// Replaces the table, once the loops have the new one for their next requests. The server then fetches no keys that it
  /// does not name.
  func use(_ table: KeySetTable) {
    let (dropped, hasBegun) = state.withLock { state in
      let earlier = state.current
      state.current = table
      let dropped = earlier.remotes.filter { table.remotes[$0.key] == nil }.values
      for remote in dropped { state.earlierCounts.addTotals(of: remote.counts) }
      return (dropped, state.timer != nil)
    }
    for remote in dropped { remote.close() }
    if hasBegun { refreshDue() }
  }

  func begin() {
    state.withLock { state in
      let timer = DispatchSource.makeTimerSource(queue: queue)
      timer.setEventHandler { [weak self] in self?.refreshDue() }
      timer.resume()
      state.timer = timer
    }
    refreshDue()
  }

  /// Cancels all fetches for good, and returns when they have ended. Do not call it on an event loop.
  func close() {
    let timer = state.withLock { state in
      defer { state.timer = nil }
      return state.timer
    }
    timer?.cancel()
    for remote in remotes { remote.close() }
    _ = context.underWay.wait(timeout: .now() + Self.patience)
  }

  var counts: KeySetCounts {
    remotes.map(\.counts).reduce(into: state.withLock { $0.earlierCounts }) { sum, counts in
      sum.addTotals(of: counts)
      sum.missing += counts.missing
      sum.oldestAge = [sum.oldestAge, counts.oldestAge].compactMap { $0 }.max()
    }
  }

  private var remotes: some Collection<RemoteKeySet> { table.remotes.values }

  /// Fetches the sets that are due, and schedules the next refresh.
  func refreshDue() {
    for remote in remotes { remote.refresh(.age) }
    scheduleTimer()
  }

  private func scheduleTimer() {
    let now = context.clock()
    guard let next = remotes.map(\.nextAt).min() else { return }
    // A fetch in flight is still due; its end calls this function again.
    let pause = max(1, min(next, now + KeySetSchedule.lifetimes.upperBound) - now)
    state.withLock { $0.timer?.schedule(deadline: .now() + .seconds(pause), leeway: .seconds(1)) }
  }
}

struct KeySetContext: Sendable {
  let logger: Logger
  /// The time in seconds of a monotonic clock.
  var clock: @Sendable () -> Int = { Int(Deadline.now.nanoseconds / 1_000_000_000) }
  var timeouts = KeySetFetch.timeouts
  /// The fetches in flight, which the end of the process waits for.
  let underWay = DispatchGroup()
}

struct KeySetCounts: Sendable, Equatable {
  /// The total of fetches that have ended, whether they succeeded or failed.
  var fetches = 0
  var failures = 0
  /// The providers without any keys yet. The server refuses all of their JWTs.
  var missing = 0
  /// The seconds since the oldest set in use was fetched; nil if none was.
  var oldestAge: Int?

  mutating func addTotals(of others: KeySetCounts) {
    fetches += others.fetches
    failures += others.failures
  }
}

/// The key sets of one generation of settings. The sets of providers refresh independently of it.
struct KeySetTable: Sendable {
  /// The keys from files.
  var read: [KeySetSource: JSONWebKeySet] = [:]
  var remotes: [KeySetSource: RemoteKeySet] = [:]

  /// Returns the present keys of a source; nil if the server has fetched none yet. Never waits.
  func present(_ source: KeySetSource) -> JSONWebKeySet? { read[source] ?? remotes[source]?.present }

  /// Returns whether a fetch of any of the sources is in flight, or may begin.
  func mayFetch(_ sources: [KeySetSource]) -> Bool { sources.contains { remotes[$0]?.mayFetch ?? false } }

  /// Waits for fetches of several sources at once, ten seconds in all, unless the schedule allows none, and until the task
  /// is cancelled. The caller has no keys of those in `lacking`, so those that have arrived since are fresh.
  func refresh(_ sources: [KeySetSource], lacking: [KeySetSource]) async {
    await withTaskGroup(of: Void.self) { group in
      for source in sources {
        if let remote = remotes[source] { group.addTask { await remote.fetch(isFirst: lacking.contains(source)) } }
      }
    }
  }
}

/// The key set of one provider. The server fetches it by its schedule, and keeps it until a newer one arrives.
final class RemoteKeySet: Sendable {
  private let loop: IOLoop
  private let context: KeySetContext
  private let throttle: Throttle
  /// Called on the loop after each fetch.
  private let ended: @Sendable () -> Void
  private let state: Locked<State>

  private struct State {
    var place: KeySetPlace
    /// The address of the keys in the provider's discovery document; nil before the first.
    var discovered: KeySetDiscovery?
    var schedule = KeySetSchedule()
    var keys: JSONWebKeySet?
    var waiting: [ObjectIdentifier: OneShot<Void>] = [:]
    var fetch: Task<Void, Never>?
    var fetches = 0
    var failures = 0
    var isClosed = false
  }

  /// The maximum number of callers that wait for a fetch: 1000. Further callers use the present keys at once, so that
  /// strangers with invented tokens cannot fill the server while a provider is slow.
  private static let mostWaiting = 1000

  init(_ place: KeySetPlace, loop: IOLoop, context: KeySetContext, ended: @escaping @Sendable () -> Void) {
    (state, throttle) = (Locked(State(place: place)), Throttle(context.logger))
    (self.loop, self.context, self.ended) = (loop, context, ended)
  }

  /// The present keys; nil before the first successful fetch.
  var present: JSONWebKeySet? { state.withLock { $0.keys } }

  /// The time of the next fetch; in the past if one is due or in flight.
  var nextAt: Int { state.withLock { $0.schedule.nextAt } }

  var counts: KeySetCounts {
    state.withLock { state in
      let age = state.schedule.fetchedAt.map { context.clock() - $0 }
      return KeySetCounts(fetches: state.fetches, failures: state.failures, missing: age == nil ? 1 : 0, oldestAge: age)
    }
  }

  /// Uses other CAs or another proxy for further fetches.
  func use(_ place: KeySetPlace) { state.withLock { $0.place = place } }
  func refresh(_ occasion: KeySetSchedule.Occasion) { state.withLock { begin(occasion, &$0) } }

  /// Whether a fetch is in flight, or may begin for a JWT that the present keys do not verify.
  var mayFetch: Bool {
    state.withLock { state in
      !state.isClosed && (state.fetch != nil || state.schedule.allows(.unknownKey, now: context.clock()))
    }
  }

  /// Waits as ``KeySetTable/refresh(_:lacking:)`` has it.
  func fetch(isFirst: Bool) async {
    let end = OneShot<Void>()
    let isWaiting = state.withLock { state in
      if isFirst, state.keys != nil { return false }
      begin(.unknownKey, &state)
      guard state.fetch != nil, state.waiting.count < Self.mostWaiting else { return false }
      state.waiting[ObjectIdentifier(end)] = end
      return true
    }
    guard isWaiting else { return }
    await withTaskCancellationHandler {
      await end.get()
    } onCancel: {
      state.withLock { $0.waiting[ObjectIdentifier(end)] = nil }
      end.resume(())
    }
  }

  /// Cancels a fetch in flight, and prevents further ones.
  func close() {
    let fetch = state.withLock { state in
      state.isClosed = true
      return state.fetch
    }
    fetch?.cancel()
  }

  private func begin(_ occasion: KeySetSchedule.Occasion, _ state: inout State) {
    guard !state.isClosed, state.schedule.begin(for: occasion, now: context.clock()) else { return }
    context.underWay.enter()
    let fetch = KeySetFetch(
      place: state.place, discovered: state.discovered, timeouts: context.timeouts, now: context.clock(),
      occasion: occasion)
    state.fetch = Task(executorPreference: loop) { [self] in
      end(await fetch.result(on: loop), of: fetch)
      context.underWay.leave()
    }
  }

  /// Records and logs the result before it resumes the waiters, because they may read both.
  private func end(_ result: Result<KeySetFetch.Fetched, KeySetFetch.Failure>, of fetch: KeySetFetch) {
    let (earlier, isClosed) = state.withLock { ($0.keys, $0.isClosed) }
    switch result {
    case _ where isClosed: break
    case .success(let fetched): tell(fetched, of: fetch.place.url, after: earlier)
    case .failure(let failure): tell(failure, of: fetch.place.url, keeping: earlier)
    }
    let waiting = state.withLock { state in
      state.fetches += 1
      switch result {
      case .success(let fetched):
        (state.keys, state.discovered) = (fetched.keys, fetched.discovered)
        state.schedule.succeeded(now: context.clock(), maxAge: fetched.maxAge)
      case .failure:
        state.failures += 1
        // The keys may have moved: the next fetch asks the provider where they are.
        state.discovered?.isDoubtful = true
        state.schedule.failed(now: context.clock())
      }
      defer { (state.waiting, state.fetch) = ([:], nil) }
      return state.waiting
    }
    for end in waiting.values { end.resume(()) }
    ended()
  }

  private func tell(_ fetched: KeySetFetch.Fetched, of place: ServiceURL, after earlier: JSONWebKeySet?) {
    let keys = fetched.keys
    let url = fetched.discovered?.url ?? place
    context.logger.debug("Key set fetched", metadata: ["keys.url": "\(url)", "keys.count": "\(keys.count)"])
    if let failure = fetched.discoveryFailure {
      throttle.log(
        "discovery",
        """
        The server could not fetch the discovery document \(place). \(failure) It took the keys from \(url), where they \
        were before.
        """)
    }
    guard keys.findings != earlier?.findings else { return }
    for finding in keys.findings { context.logger.warning("\(url): \(finding)") }
  }

  private func tell(_ failure: KeySetFetch.Failure, of place: ServiceURL, keeping earlier: JSONWebKeySet?) {
    let consequence =
      earlier == nil ? "Until the server has them, it accepts no JWT that they sign." : "The earlier keys stay in use."
    throttle.log(
      "failed", "The server could not fetch the keys at \(failure.url ?? "\(place)"). \(failure) \(consequence)")
  }
}
