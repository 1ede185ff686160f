import HTTPCache
import HTTPMessages
import HTTPTypes
import Memory
import UpstreamAdmission

/// Phases 4 and 9: concurrent requests for the same resource share one upstream request, which no single caller owns.
extension CatalogGateway {
  /// Waits for the result of the request's flight, and starts the flight if it does not exist. If the caller may have a
  /// stale response, the wait ends after `staleAfter`, and the flight continues.
  ///
  /// - Parameter waitsForAll: Whether the wait lasts to the end even if the caller may have a stale response.
  @inline(never)
  func coalesce(_ miss: CatalogMiss, waitsForAll: Bool = false) async -> (Outcome, isCollapsed: Bool) {
    let waiting = OneShot<Outcome>()
    let place: Place
    switch join(miss, waiting, waitsForAll: waitsForAll) {
    case .joined(let joined): place = joined
    case .unshared: return (await fetch(miss), false)
    case .late: return (.late, true)
    }
    defer { place.timer?.cancel() }
    let outcome = await withTaskCancellationHandler {
      await waiting.get()
    } onCancel: {
      leave(place.ticket)
    }
    return (outcome, !place.isFirst)
  }

  /// The result of joining a flight.
  private enum Joining: Sendable {
    case joined(Place)
    /// Requests for this resource do not wait for each other.
    case unshared
    /// A waiter has left the flight with a stale response, and this caller may have it as well.
    case late
  }

  /// A place in a flight.
  private struct Place {
    let ticket: FlightTicket
    /// Whether the caller has started the flight.
    let isFirst: Bool
    /// The task that ends the wait after `staleAfter`; nil if the wait lasts to the end.
    var timer: Task<Void, Never>?
  }

  @inline(never)
  private func join(_ miss: CatalogMiss, _ waiting: OneShot<Outcome>, waitsForAll: Bool) -> Joining {
    let (now, call) = (clock.now, miss.call)
    let hasStale =
      !waitsForAll
      && miss.stored.map { Selection($0.response, now: now).mayServeWhileWaiting(call.directives) } ?? false
    let joining = withState { state -> Joining in
      // A background request answers no caller.
      if !waitsForAll { state.counts.misses += 1 }
      guard !state.unsharedTargets.contains(call.key, now: now.elapsed) else { return .unshared }
      let key = FlightKey(call.key, sent: call.fields)
      if hasStale, state.coalescer.isKept(key) { return .late }
      let (ticket, isNew) = state.coalescer.join(key, waiting)
      if isNew {
        // Started within the lock, so that no caller can leave the flight before its task is set. The task runs later.
        let task = Task(executorPreference: miss.route.executor) {
          await self.runCoalesced(ticket.flight, miss, leader: waiting)
        }
        state.coalescer.began(ticket.flight, task)
      } else {
        state.counts.collapsed += 1
      }
      return .joined(Place(ticket: ticket, isFirst: isNew))
    }
    guard hasStale, case .joined(var place) = joining else { return joining }
    place.timer = endWait(of: place.ticket, by: miss.route)
    return .joined(place)
  }

  /// Ends the wait of one caller after `staleAfter`.
  private func endWait(of ticket: FlightTicket, by route: UpstreamRoute) -> Task<Void, Never> {
    let patience = configuration.staleAfter
    return Task(executorPreference: route.executor) {
      guard (try? await route.upstream.pause(for: patience)) != nil else { return }
      self.withState { $0.coalescer.keep(ticket) }?.resume(.late)
    }
  }

  private func leave(_ ticket: FlightTicket) {
    guard case .left(let waiter, let abandoned) = withState({ $0.coalescer.leave(ticket) }) else { return }
    abandoned?.cancel()
    waiter.resume(.cancelled)
  }

  /// Fetches the response and resumes all waiting callers with it.
  private func runCoalesced(_ flight: FlightID, _ miss: CatalogMiss, leader: OneShot<Outcome>) async {
    complete(flight, await fetch(miss), leader: leader)
  }

  @inline(never)
  private func complete(_ flight: FlightID, _ outcome: Outcome, leader: OneShot<Outcome>) {
    let waiters = withState { $0.coalescer.complete(flight) }
    guard case .stream(let response) = outcome else { return tell(waiters, outcome) }
    // The content can be read only on this event loop, which is the leader's.
    var isTaken = false
    for waiter in waiters where waiter === leader { isTaken = waiter.resume(outcome) }
    for waiter in waiters where waiter !== leader { waiter.resume(.alone) }
    if !isTaken { response.content.cancel() }
  }

  /// Resumes all waiters with an outcome. If only one caller may have it, the first waiter gets it.
  private func tell(_ waiters: [OneShot<Outcome>], _ outcome: Outcome) {
    var outcome = outcome
    for waiter in waiters where waiter.resume(outcome) && outcome.isForOne { outcome = .unshared }
  }

  /// Sends the upstream request for a storable resource, and stores the response.
  @inline(never)
  func fetch(_ miss: CatalogMiss) async -> Outcome {
    var stored = miss.stored?.response
    while true {
      let requestedAt = clock.now
      switch await exchange(CatalogExchange(fetching: miss, validating: stored)) {
      case .failure(let failure): return .failure(failure)
      case .cancelled: return .cancelled
      case .response(let response, let permit) where response.status == .notModified:
        response.content.cancel()
        permit.release(.answered)
        if let outcome = freshen(stored, by: response, miss, requestedAt) { return outcome }
        // The response is about another version than the stored one. Without validators, Apple sends it whole.
        stored = nil
      case .response(let response, let permit):
        return await store(response, permit, miss, Times(requestedAt: requestedAt, receivedAt: clock.now))
      }
    }
  }

  /// When a request was sent, and when the head of its response arrived.
  private struct Times {
    let requestedAt: CacheTime
    let receivedAt: CacheTime
  }

  /// Renews a stored response by a 304. Nil if the 304 describes another version.
  @inline(never)
  private func freshen(
    _ stored: StoredResponse?, by response: UpstreamResponse, _ miss: CatalogMiss, _ requestedAt: CacheTime
  ) -> Outcome? {
    guard let stored else { return .failure(.status(.notModified, nextHop: configuration.nextHop)) }
    let notModified = received(response, miss, Times(requestedAt: requestedAt, receivedAt: clock.now), [])
    let settings = cacheSettings
    guard let fresh = cache.freshen(stored, for: miss.call.key, by: notModified, settings: settings) else { return nil }
    if settings != cacheSettings { cache.remove(miss.call.key) }
    return .response(fresh, isStored: true, forwardStatus: 304)
  }

  /// Reads a response to its end and stores it, unless it is too long for the cache.
  @inline(never)
  private func store(
    _ response: UpstreamResponse, _ permit: HeldPermit, _ miss: CatalogMiss, _ times: Times
  ) async -> Outcome {
    let limit = configuration.cache.largestContent
    guard response.contentLength ?? 0 <= limit else {
      return .stream(held(response, permit, until: miss.end, miss.route))
    }
    var parts = PartialContent(response.content, memory: configuration.memory)
    do throws(ContentError) {
      switch try await parts.read(upTo: limit, length: response.contentLength) {
      case .whole: permit.release(.answered)
      case .tooLong: return .stream(held(parts.response(response), permit, until: miss.end, miss.route))
      case .refused:
        response.content.cancel()
        permit.release(.inconclusive)
        return .failure(.overMemory)
      }
    } catch {
      permit.release(.inconclusive)
      return broken(error)
    }
    return store(response, parts, miss, times)
  }

  /// Stores a whole response.
  @inline(never)
  private func store(
    _ response: UpstreamResponse, _ content: PartialContent, _ miss: CatalogMiss, _ times: Times
  ) -> Outcome {
    let key = miss.call.key
    do throws(ContentCodingError) {
      let settings = cacheSettings
      let whole = try StoredResponse(received(response, miss, times, content.bytes), settings: settings)
      let isStored = cache.store(whole, for: key)
      let now = clock.elapsed
      let isPublic = withState { state in
        state.unsharedTargets.note(key, isShareable: whole.isShareable, now: now)
        return state.isPublic
      }
      // The settings changed meanwhile, so the stored mark may be wrong. The waiting callers still get the response.
      if settings.isPublic != isPublic { cache.remove(key) }
      return .response(whole, isStored: isStored, forwardStatus: nil)
    } catch .tooLarge where miss.call.coding == .gzip {
      return .stream(content.response(response))
    } catch {
      return broken(
        .broken("The content is not valid gzip, as its Content-Encoding says, or its decoded size is too large."))
    }
  }

  private func broken(_ error: ContentError) -> Outcome {
    guard error != .cancelled else {
      return Task.isCancelled ? .cancelled : .failure(.givenUp(nextHop: configuration.nextHop))
    }
    let error = UpstreamError(
      error == .timedOut ? .responseTimeout : .responseIncomplete, .answered, "A response ended too early. \(error)")
    observer.noticed(.exchangeFailed(error))
    return .failure(UpstreamFailure(error, nextHop: configuration.nextHop))
  }

  private func received(
    _ response: UpstreamResponse, _ miss: CatalogMiss, _ times: Times, _ content: [UInt8]
  ) -> ReceivedResponse {
    ReceivedResponse(
      status: response.status, fields: response.fields,
      downstream: policy.responseFields(response.fields, version: response.version), body: content,
      sent: miss.call.fields, requestedAt: times.requestedAt, receivedAt: times.receivedAt)
  }
}

extension Outcome {
  /// Whether only one of the waiting callers may have the outcome.
  fileprivate var isForOne: Bool {
    if case .response(let response, _, _) = self { !response.isShareable } else { false }
  }
}

/// Content that is read until it is complete or too long to keep.
struct PartialContent {
  /// The result of a read.
  enum Reading {
    /// The content is complete.
    case whole
    /// The content is longer than the limit. The bytes read so far are kept, and the rest still has to be read.
    case tooLong
    /// The memory budget does not allow more.
    case refused
  }

  private let reader: any ContentReader
  private let hold: MemoryHold
  /// The bytes read so far, in one array. Separate parts would leave as much free memory again in the heap between used
  /// blocks, where no budget counts it.
  private(set) var bytes: [UInt8] = []
  private var isWhole = false

  /// Creates content of zero bytes. The bytes that are read are charged to `memory`.
  init(_ reader: any ContentReader, memory: MemoryBudget) {
    self.reader = reader
    hold = MemoryHold(memory, for: nil)
  }

  /// Reads to the end, or until there are more than `limit` bytes.
  ///
  /// - Parameter length: The length in bytes, if the upstream has stated it.
  mutating func read(upTo limit: Int, length: Int?) async throws(ContentError) -> Reading {
    while let part = try await reader.read() {
      if bytes.isEmpty {
        // Short content arrives in one part, and is not copied.
        bytes = part
        if let length, length > part.count { bytes.reserveCapacity(min(length, limit)) }
      } else {
        bytes.append(contentsOf: part)
      }
      guard hold.resize(to: bytes.capacity, for: .upstream) else { return .refused }
      guard bytes.count <= limit else { return .tooLong }
    }
    isWhole = true
    return .whole
  }

  /// Returns `response` with the bytes already read in front of the rest.
  func response(_ response: UpstreamResponse) -> UpstreamResponse {
    response.read(by: Continuation(bytes, hold, then: isWhole ? nil : reader))
  }

  /// Content that returns bytes read before, and then the rest.
  private final class Continuation: ContentReader, @unchecked Sendable {
    // Sendable by confinement: only one task at a time uses it, on the loop of `rest`.
    private var bytes: [UInt8]
    private var sent = 0
    private let hold: MemoryHold
    private let rest: (any ContentReader)?

    /// The maximum number of these bytes that one read returns.
    private static let partSize = 65_536

    init(_ bytes: [UInt8], _ hold: MemoryHold, then rest: (any ContentReader)?) {
      self.bytes = bytes
      self.hold = hold
      self.rest = rest
    }

    func read() async throws(ContentError) -> [UInt8]? {
      guard sent < bytes.count else { return try await rest?.read() }
      let end = min(sent + Self.partSize, bytes.count)
      let part = Array(bytes[sent..<end])
      sent = end
      if sent == bytes.count { forget() }
      return part
    }

    func cancel() {
      forget()
      rest?.cancel()
    }

    private func forget() {
      (bytes, sent) = ([], 0)
      hold.force(to: 0)
    }
  }
}
