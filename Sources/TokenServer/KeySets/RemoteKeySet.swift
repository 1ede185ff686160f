import Access
import Dispatch
import EventLoop
import Locks
import Logging

/// The key set of one provider. The server fetches it by its schedule, and keeps it until a newer one arrives. Many callers
/// share one fetch.
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
    var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
    var tickets = 0
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

  /// Returns the keys as ``KeySetTable/fresh(_:isFirst:)`` has it.
  func fresh(isFirst: Bool) async -> JSONWebKeySet? {
    let ticket = state.withLock { state in
      state.tickets += 1
      return state.tickets
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isWaiting = state.withLock { state in
          if isFirst, state.keys != nil { return false }
          begin(.unknownKey, &state)
          // A task that was cancelled before it is on the list would wait until the end of the fetch.
          guard state.fetch != nil, state.waiting.count < Self.mostWaiting, !Task.isCancelled else { return false }
          state.waiting[ticket] = continuation
          return true
        }
        if !isWaiting { continuation.resume() }
      }
    } onCancel: {
      state.withLock { $0.waiting.removeValue(forKey: ticket) }?.resume()
    }
    return present
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
      do throws(KeySetFetch.Failure) {
        end(.success(try await fetch.run(on: loop)), of: fetch)
      } catch {
        end(.failure(error), of: fetch)
      }
      context.underWay.leave()
    }
  }

  /// Records and logs the result before it resumes the waiters, because they may read both.
  private func end(_ result: Result<KeySetFetch.Fetched, KeySetFetch.Failure>, of fetch: KeySetFetch) {
    let (earlier, isClosed) = state.withLock { ($0.keys, $0.isClosed) }
    switch result {
    case _ where isClosed: break
    case .success(let fetched): tell(fetched, of: fetch.place, after: earlier)
    case .failure(let failure): tell(failure, of: fetch.place, keeping: earlier)
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
    for continuation in waiting.values { continuation.resume() }
    ended()
  }

  private func tell(_ fetched: KeySetFetch.Fetched, of place: KeySetPlace, after earlier: JSONWebKeySet?) {
    let keys = fetched.keys
    let url = fetched.discovered.map { "\($0.url)" } ?? "\(place)"
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

  private func tell(_ failure: KeySetFetch.Failure, of place: KeySetPlace, keeping earlier: JSONWebKeySet?) {
    let consequence =
      earlier == nil ? "Until the server has them, it accepts no JWT that they sign." : "The earlier keys stay in use."
    throttle.log(
      "failed", "The server could not fetch the keys at \(failure.url ?? "\(place)"). \(failure) \(consequence)")
  }
}
