import Access
import Dispatch
import EventLoop
import Locks
import Logging

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
    let earlier = table.entries
    return KeySetTable(
      named.entries.reduce(into: [:]) { entries, next in
        entries[next.key] = entry(next.key, next.value, replacing: earlier[next.key])
      })
  }

  /// Replaces the table. Call it once every request uses the new one, because the server then stops fetching the keys
  /// of providers that the new table does not name.
  func use(_ table: KeySetTable) {
    let (dropped, hasBegun) = state.withLock { state in
      let earlier = state.current
      state.current = table
      let dropped = earlier.entries.filter { table.entries[$0.key] == nil }.values.compactMap(\.remote)
      for remote in dropped { state.earlierCounts.addTotals(of: remote.counts) }
      return (dropped, state.timer != nil)
    }
    for remote in dropped { remote.close() }
    if hasBegun { refreshDue() }
  }

  private func entry(
    _ source: KeySetSource, _ named: NamedKeySets.Entry, replacing earlier: KeySetTable.Entry?
  ) -> KeySetTable.Entry? {
    switch named {
    case .read(let keys): return .read(keys)
    case .remote(let place):
      guard case .remote(let remote)? = earlier else {
        guard let loop = loops.first else { return nil }
        return .remote(RemoteKeySet(place, loop: loop, context: context) { [weak self] in self?.scheduleTimer() })
      }
      // A set without its own CAs uses those of the system, which its present place has already.
      switch source {
      case .url(_, .some), .issuer(_, .some): remote.use(place)
      case .file, .url, .issuer: break
      }
      return .remote(remote)
    }
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

  private var remotes: [RemoteKeySet] { table.remotes }

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

/// The key sets of one generation of settings. A request uses the table of the generation that it began with; the sets
/// of providers refresh independently of it.
struct KeySetTable: Sendable {
  enum Entry: Sendable {
    case read(JSONWebKeySet)
    case remote(RemoteKeySet)

    var remote: RemoteKeySet? { if case .remote(let remote) = self { remote } else { nil } }
  }

  let entries: [KeySetSource: Entry]

  init(_ entries: [KeySetSource: Entry] = [:]) { self.entries = entries }

  /// Returns the present keys of a source; nil if the server has fetched none yet. Never waits.
  func present(_ source: KeySetSource) -> JSONWebKeySet? {
    switch entries[source] {
    case .read(let keys): keys
    case .remote(let remote): remote.present
    case nil: nil
    }
  }

  /// Returns the keys of a source after a fetch, if one is in flight or the schedule allows one; otherwise at once. Waits
  /// for at most ten seconds, and ends early if the task is cancelled.
  ///
  /// - Parameter isFirst: Whether the caller found no keys. If the first ones have arrived since, they are fresh.
  func fresh(_ source: KeySetSource, isFirst: Bool = false) async -> JSONWebKeySet? {
    switch entries[source] {
    case .read(let keys): keys
    case .remote(let remote): await remote.fresh(isFirst: isFirst)
    case nil: nil
    }
  }

  /// Returns whether a fetch of any of the sources is in flight, or may begin.
  func mayFetch(_ sources: [KeySetSource]) -> Bool {
    sources.contains { entries[$0]?.remote?.mayFetch ?? false }
  }

  /// Waits for the keys of several sources at the same time: ten seconds in all, even if several providers hang.
  ///
  /// - Parameter lacking: The sources of which the caller found no keys, so that those which are there are new.
  func refresh(_ sources: [KeySetSource], lacking: [KeySetSource]) async {
    await withTaskGroup { group in
      for source in sources { group.addTask { _ = await fresh(source, isFirst: lacking.contains(source)) } }
    }
  }

  var remotes: [RemoteKeySet] { entries.values.compactMap(\.remote) }
}
