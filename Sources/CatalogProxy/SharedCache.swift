package import HTTPCache
import UpstreamAdmission

/// The second-level cache, as one event loop uses it: a store that all replicas share. That loop makes all calls.
package protocol SharedCache: AnyObject, Sendable {
  var codec: SharedEntryCodec { get }
  /// Whether the store responds, so that a lookup is worth its time.
  var isReady: Bool { get }

  /// Looks for an entry. Without a fresh one, this replica announces that it fetches the response; if another replica has
  /// announced that already, the lookup waits for the end of its fetch, for `patience` at most. `completion` takes the
  /// finding once, on the loop: later, not within this call.
  func look(
    up key: SharedEntryKey, patience: Duration, _ completion: @escaping @Sendable (SharedFinding) -> Void
  ) -> any SharedLookup

  /// Ends the fetch that follows a lookup: stores its response, and tells the replicas that wait for it.
  func finish(_ key: SharedEntryKey, _ end: SharedFetchEnd)

  func count(_ result: SharedLookupResult)
}

/// A lookup that has no finding yet.
package protocol SharedLookup: AnyObject, Sendable {
  func cancel()
}

package enum SharedFinding: Sendable, Equatable {
  /// An entry that was fresh when it was stored, and should be so still. `hasWaited`: another replica fetched it meanwhile.
  case entry([UInt8], hasWaited: Bool)
  /// This replica fetches the response; others may wait for it. There may be a stale entry to validate.
  case lead(stale: [UInt8]?)
  /// This replica fetches the response without an announcement.
  case alone(Reason)

  package enum Reason: Sendable, Equatable {
    /// The store did not reply in time, or not as it should.
    case noReply
    /// Another replica has a response that is not for others, or takes too long.
    case waitedInVain
  }
}

/// The end of a fetch, for the replicas that wait for it.
package enum SharedFetchEnd: Sendable, Equatable {
  /// The response is for all.
  case stored(SharedEntry)
  /// There is no response. One of the others tries next.
  case failed
  /// There is a response that is not stored, so each of the others sends a request of its own. `replaces`: what the store
  /// has is no longer right.
  case unshared(replaces: Bool)

  package var outcome: SharedFetchOutcome {
    switch self {
    // Others can only validate a response that is stale at once, and need not do so one after another.
    case .stored(let entry): entry.isFresh ? .stored : .unshared
    case .failed: .failed
    case .unshared: .unshared
    }
  }
}

/// The end of a fetch in a message. The raw values are part of the format.
package enum SharedFetchOutcome: UInt8, Sendable {
  case stored = 0
  case failed = 1
  case unshared = 2
}

/// The result of a lookup, for metrics.
package enum SharedLookupResult: Sendable, CaseIterable {
  case hit
  /// The response came from the store, and another replica fetched it while this one waited.
  case waited
  /// The store had no usable response, so this replica fetched it.
  case miss
  case invalid
  /// The store did not reply in time, or refused the command.
  case timeout
  /// Another replica's response was not for sharing, or took too long.
  case vain
  /// The store was known not to respond.
  case skipped
}

/// The second-level cache: a flight asks the store before Apple, and stores there what it stores locally.
extension CatalogGateway {
  /// Returns the key of a call's response at the store; nil if it must not be there.
  func sharedKey(of call: CatalogCall, at shared: any SharedCache) -> SharedEntryKey? {
    call.isCacheable ? shared.codec.key(of: call.key, sending: call.fields) : nil
  }

  /// Judges a finding by this replica's settings and clock, and stores a newer response locally. Returns what it means for
  /// the flight.
  func event(
    after finding: SharedFinding, of miss: CatalogMiss, _ key: SharedEntryKey, from shared: any SharedCache
  ) -> Flight.Event {
    switch finding {
    case .alone(let reason):
      shared.count(reason == .noReply ? .timeout : .vain)
      return .notFound(validating: miss.stored?.response)
    case .lead(let stale):
      let response = stale.flatMap { newest($0, key, miss, at: shared) }
      shared.count(stale != nil && response == nil ? .invalid : .miss)
      return .notFound(validating: response ?? miss.stored?.response)
    case .entry(let entry, let hasWaited):
      guard let response = newest(entry, key, miss, at: shared) else {
        shared.count(.invalid)
        return .notFound(validating: miss.stored?.response)
      }
      guard isUsable(response, for: miss.call) else {
        shared.count(.miss)
        return .notFound(validating: response)
      }
      shared.count(hasWaited ? .waited : .hit)
      return .found(response)
    }
  }

  /// Returns whether a response of another replica answers a call without a request to Apple.
  func isUsable(_ response: StoredResponse, for call: CatalogCall) -> Bool {
    let selection = Selection(response, now: clock.now)
    guard selection.isFresh, case .hit = selection.use(for: call.directives) else { return false }
    return true
  }

  /// Returns the response in an entry, which it stores locally, or the local one if that is newer. Nil if the entry does not
  /// verify.
  private func newest(
    _ entry: [UInt8], _ key: SharedEntryKey, _ miss: CatalogMiss, at shared: any SharedCache
  ) -> StoredResponse? {
    let (now, settings) = (clock.now, cacheSettings)
    guard
      let response = shared.codec.decode(entry, for: key, sending: miss.call.fields, now: now, settings: settings)
    else { return nil }
    if let own = miss.stored?.response, Selection(own, now: now).age <= Selection(response, now: now).age { return own }
    cache.store(response, for: miss.call.key, of: CacheOwner(CircuitSubject(miss.call, for: miss.payer)))
    // The settings changed meanwhile, so the stored fields may be wrong.
    if settings != cacheSettings { cache.remove(miss.call.key) }
    return response
  }

  /// Stores the outcome of a fetch for the other replicas, and tells those that wait for it.
  func share(_ outcome: Outcome, of miss: CatalogMiss, as key: SharedEntryKey, at shared: any SharedCache) {
    switch outcome {
    case .found: return
    case .response(let response, isStored: true, _) where shared.isReady:
      // Compressed even if no caller of this replica wants that.
      let response = cache.compress(response, for: miss.call.key)
      compressInTurns(response, of: miss.call, by: miss.route) { response in
        let entry = shared.codec.encode(response, for: key, now: self.clock.now)
        shared.finish(key, entry.map { .stored($0) } ?? .unshared(replaces: response.replacesStored))
      }
    case .response(let response, _, _): shared.finish(key, .unshared(replaces: response.replacesStored))
    case .stream, .alone, .unshared: shared.finish(key, .unshared(replaces: false))
    case .late, .failure, .cancelled: shared.finish(key, .failed)
    }
  }
}
