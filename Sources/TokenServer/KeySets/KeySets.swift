import Access
import Dispatch
import EventLoop
import HTTPClient
import HTTPMessages
import Locks
import Logging
import ServerSettings
import TLS

/// The keys by which JWTs are verified, for the whole process: those of files as they were last read, and those of
/// providers, fetched in the background and refreshed. Made once; a reload changes which ones there are.
///
/// Nothing is fetched before `begin`: a start that fails has nothing under way that could outlive it.
final class KeySets: Sendable {
  private let loops: [IOLoop]
  private let context: KeySetContext
  private let queue = DispatchQueue(label: "key-sets")
  private let state = Locked(State())

  private struct State {
    var current = KeySetTable()
    /// The counts of key sets that the settings no longer name, because totals must never decrease.
    var earlierCounts = KeySetCounts()
    /// Says when a set has come of age; nil before `begin` and after `close`.
    var timer: (any DispatchSourceTimer)?
  }

  /// Longest that `close` waits for fetches to end, which they do when they are told.
  private static let patience = DispatchTimeInterval.seconds(1)

  /// None yet.
  convenience init(loops: [IOLoop], logger: Logger) {
    self.init(loops: loops, context: KeySetContext(logger: logger))
  }

  init(loops: [IOLoop], context: KeySetContext) {
    self.loops = loops
    self.context = context
  }

  // MARK: Which ones

  /// Those in use.
  var table: KeySetTable { state.withLock { $0.current } }

  /// The table to use next. A provider that the current table also names keeps its fetched keys. The server does not
  /// fetch keys of a new provider before `use`, unless a request needs them.
  func table(of named: NamedKeySets) -> KeySetTable {
    let earlier = table.entries
    return KeySetTable(
      named.entries.reduce(into: [:]) { entries, next in
        entries[next.key] = entry(next.key, next.value, replacing: earlier[next.key])
      })
  }

  /// Has these from now on and no others. To be called once every request is judged by them: of those that are dropped
  /// nothing is fetched any more.
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
    case .remote(let url, let configuration):
      guard case .remote(let remote)? = earlier else {
        guard let loop = loops.first else { return nil }
        return .remote(
          RemoteKeySet(url, configuration, loop: loop, context: context) { [weak self] in self?.scheduleTimer() })
      }
      // The system's authorities are in the present one already.
      if case .url(_, .some) = source { remote.use(configuration) }
      return .remote(remote)
    }
  }

  /// Fetches what is to be fetched, now and from time to time.
  func begin() {
    state.withLock { state in
      let timer = DispatchSource.makeTimerSource(queue: queue)
      timer.setEventHandler { [weak self] in self?.refreshDue() }
      timer.resume()
      state.timer = timer
    }
    refreshDue()
  }

  /// Ends all fetches, for good; returns when they have ended. Not from an event loop.
  func close() {
    let timer = state.withLock { state in
      defer { state.timer = nil }
      return state.timer
    }
    timer?.cancel()
    for remote in remotes { remote.close() }
    _ = context.underWay.wait(timeout: .now() + Self.patience)
  }

  /// What has become of them.
  var counts: KeySetCounts {
    remotes.map(\.counts).reduce(into: state.withLock { $0.earlierCounts }) { sum, counts in
      sum.addTotals(of: counts)
      sum.missing += counts.missing
      sum.oldestAge = [sum.oldestAge, counts.oldestAge].compactMap { $0 }.max()
    }
  }

  // MARK: Time

  private var remotes: [RemoteKeySet] { table.remotes }

  /// Fetches the sets that have come of age, and sees to it that this is done again in time.
  func refreshDue() {
    for remote in remotes { remote.refresh(.age) }
    scheduleTimer()
  }

  private func scheduleTimer() {
    let now = context.clock()
    guard let next = remotes.map(\.nextAt).min() else { return }
    // One that is under way is due still: its end comes here again.
    let pause = max(1, min(next, now + KeySetSchedule.lifetimes.upperBound) - now)
    state.withLock { $0.timer?.schedule(deadline: .now() + .seconds(pause), leeway: .seconds(1)) }
  }
}

/// What all key sets of a process have in common.
struct KeySetContext: Sendable {
  let logger: Logger
  /// Seconds of a clock that never goes back.
  var clock: @Sendable () -> Int = { Int(Deadline.now.nanoseconds / 1_000_000_000) }
  /// How long a fetch may take.
  var timeouts = KeySetFetch.timeouts
  /// The fetches under way.
  let underWay = DispatchGroup()
}

/// What has become of the key sets that are fetched, for metrics.
struct KeySetCounts: Sendable, Equatable {
  // Totals.

  /// Fetches that have ended, one way or the other.
  var fetches = 0
  /// Of those, the ones that brought no key set.
  var failures = 0

  // Present numbers.

  /// Providers whose keys the server has not fetched yet: it refuses all of their JWTs.
  var missing = 0
  /// Seconds since the oldest set in use was fetched; nil if none was.
  var oldestAge: Int?

  /// Adds what others have done, but not how they are.
  mutating func addTotals(of others: KeySetCounts) {
    fetches += others.fetches
    failures += others.failures
  }
}

/// The key sets that one generation of settings names. A request is judged by those of the generation that it began with,
/// while those of providers renew themselves behind it.
struct KeySetTable: Sendable {
  /// One of them.
  enum Entry: Sendable {
    case read(JSONWebKeySet)
    case remote(RemoteKeySet)

    var remote: RemoteKeySet? {
      if case .remote(let remote) = self { remote } else { nil }
    }
  }

  let entries: [KeySetSource: Entry]

  init(_ entries: [KeySetSource: Entry] = [:]) {
    self.entries = entries
  }

  /// The keys that there are of a source; nil if its provider has not been reached yet. Never waits.
  func present(_ source: KeySetSource) -> JSONWebKeySet? {
    switch entries[source] {
    case .read(let keys): keys
    case .remote(let remote): remote.present
    case nil: nil
    }
  }

  /// The keys of a source after a fetch, if its schedule allows one or one is under way; else those that there are, at
  /// once. Waits for ten seconds at most, and no longer when the task is cancelled.
  func fresh(_ source: KeySetSource) async -> JSONWebKeySet? {
    switch entries[source] {
    case .read(let keys): keys
    case .remote(let remote): await remote.fresh()
    case nil: nil
    }
  }

  /// Waits for the keys of several sources, all at once: ten seconds in all, however many providers hang.
  func refresh(_ sources: [KeySetSource]) async {
    await withTaskGroup { group in
      for source in sources { group.addTask { _ = await fresh(source) } }
    }
  }

  /// Those that are fetched.
  var remotes: [RemoteKeySet] { entries.values.compactMap(\.remote) }
}

/// The key sets that settings name, without network access: those of files as they were read, and how to fetch the
/// others. It finds every error here, before the server uses any of the settings.
struct NamedKeySets: Sendable {
  /// One of them.
  enum Entry: Sendable {
    case read(JSONWebKeySet)
    case remote(KeySetURL, UpstreamClient.Configuration)
  }

  let entries: [KeySetSource: Entry]

  /// Whether any of them are to be fetched.
  var areFetched: Bool {
    entries.values.contains { if case .remote = $0 { true } else { false } }
  }

  /// - Parameters:
  ///   - files: What the files of `sources` hold.
  ///   - proxies: What the environment says of ways to the outside.
  /// - Throws: All that is wrong, a sentence for each.
  init(_ sources: Set<KeySetSource>, files: KeySetFiles, proxies: ProxyEnvironment) throws(StartError) {
    var entries: [KeySetSource: Entry] = [:]
    var errors: [String] = []
    for source in sources {
      do throws(StartError) { entries[source] = try Entry(source, files, proxies) } catch {
        errors.append(error.description)
      }
    }
    guard errors.isEmpty else { throw StartError(errors.sorted().joined(separator: " ")) }
    self.entries = entries
  }
}

extension NamedKeySets.Entry {
  fileprivate init(
    _ source: KeySetSource, _ files: KeySetFiles, _ proxies: ProxyEnvironment
  ) throws(StartError) {
    switch source {
    case .file(let path):
      guard let keys = files.keys[path] else { throw StartError("The key set '\(path)' was not read.") }
      self = .read(keys)
    case .url(let text, let caFile):
      let url: KeySetURL
      do { url = try KeySetURL(text) } catch { throw StartError("The key set's address '\(text)' \(error).") }
      self = .remote(url, try Self.configuration(url, caFile, files, proxies))
    }
  }

  private static func configuration(
    _ url: KeySetURL, _ caFile: String?, _ files: KeySetFiles, _ proxies: ProxyEnvironment
  ) throws(StartError) -> UpstreamClient.Configuration {
    do {
      var authorities = try TLSClientContext(caSetting: "jwt.caFile")
      if let caFile {
        guard let read = files.authorities[caFile] else { throw StartError("'\(caFile)' was not read.") }
        authorities = read
      }
      var configuration = UpstreamClient.Configuration(
        .https, host: url.origin.hostToResolve, port: url.origin.port, tls: authorities,
        proxy: try proxies.proxy(for: url.origin).map { try UpstreamProxy($0) })
      // One request, and then nothing for minutes.
      configuration.http2 = .never
      return configuration
    } catch {
      throw StartError("The key set at \(url) cannot be fetched: \(error)")
    }
  }
}
