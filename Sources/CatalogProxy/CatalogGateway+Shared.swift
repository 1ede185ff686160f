import HTTPCache
import UpstreamAdmission

/// The second-level cache: a flight asks the store before Apple, and stores there what it stores locally.
extension CatalogGateway {
  /// Returns the key of a call's response at the store, or nil if the response must not be there.
  func sharedKey(of call: CatalogCall, at shared: any SharedCache) -> SharedEntryKey? {
    call.isCacheable ? shared.codec.key(of: call.key, sending: call.fields) : nil
  }

  /// The longest wait for another replica: half of the time that is left, so that this replica can still send a request of
  /// its own, whatever the store says.
  func sharedPatience(of miss: CatalogMiss) -> Duration {
    max(miss.end - clock.elapsed, .zero) / 2
  }

  /// Judges a finding by this replica's settings and clock, and stores a newer response locally. Returns what it means for
  /// the flight.
  func event(
    after finding: SharedFinding, of miss: CatalogMiss, _ key: SharedEntryKey, from shared: any SharedCache
  ) -> Flight.Event {
    switch finding {
    case .alone(let reason):
      shared.count(reason == .noReply ? .timeout : .vain)
      return .notFound(validating: miss.stored?.response, at: clock.now)
    case .lead(let stale):
      let response = stale.flatMap { newest($0, key, miss, at: shared) }
      shared.count(stale != nil && response == nil ? .invalid : .miss)
      return .notFound(validating: response ?? miss.stored?.response, at: clock.now)
    case .entry(let entry, let hasWaited):
      guard let response = newest(entry, key, miss, at: shared) else {
        shared.count(.invalid)
        return .notFound(validating: miss.stored?.response, at: clock.now)
      }
      guard isUsable(response, for: miss.call) else {
        shared.count(.miss)
        return .notFound(validating: response, at: clock.now)
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

  /// Returns the newer one of the response in an entry, which it stores locally, and the one that is there already. Nil if
  /// the entry does not verify.
  private func newest(
    _ entry: [UInt8], _ key: SharedEntryKey, _ miss: CatalogMiss, at shared: any SharedCache
  ) -> StoredResponse? {
    let (now, settings) = (clock.now, cacheSettings)
    guard
      let response = shared.codec.decode(entry, for: key, sending: miss.call.fields, now: now, settings: settings)
    else { return nil }
    if let own = miss.stored?.response, Selection(own, now: now).age <= Selection(response, now: now).age { return own }
    cache.store(response, for: miss.call.key, of: CacheOwner(CircuitSubject(miss.call)))
    // The settings changed meanwhile, so the stored fields may be wrong.
    if settings != cacheSettings { cache.remove(miss.call.key) }
    return response
  }

  /// Stores the outcome of a fetch for the other replicas, and tells those that wait for it.
  func share(
    _ outcome: Outcome, of miss: CatalogMiss, as key: SharedEntryKey, at shared: any SharedCache
  ) {
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
