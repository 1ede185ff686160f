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
  func coalesce(
    _ call: CatalogCall, validating stored: Selection?, _ reason: ForwardReason, waitsForAll: Bool = false,
    by route: UpstreamRoute, end: Duration
  ) async -> (Outcome, isCollapsed: Bool) {
    let now = clock.now
    if withState({ $0.unsharedTargets.contains(call.key, now: .nanoseconds(Int64(now.monotonic))) }) {
      return (await fetch(call, validating: stored, reason, by: route, end: end), false)
    }
    let hasStale =
      !waitsForAll && stored.map { Selection($0.response, now: now).mayServeWhileWaiting(call.directives) } ?? false
    let waiting = OneShot<Outcome>()
    let joined = withState { state -> (FlightTicket, isNew: Bool)? in
      let key = FlightKey(call.key, sent: call.fields)
      if hasStale, state.coalescer.isKept(key) { return nil }
      let (ticket, isNew) = state.coalescer.join(key, waiting)
      if isNew {
        // Started within the lock, so that no caller can leave the flight before its task is set. The task runs later.
        state.tasks[ticket.flight] = Task(executorPreference: route.executor) {
          await self.runCoalesced(ticket.flight, call, validating: stored, reason, leader: waiting, by: route, end: end)
        }
      } else {
        state.counts.collapsed += 1
      }
      return (ticket, isNew)
    }
    guard let (ticket, isNew) = joined else { return (.late, true) }
    let timer = hasStale ? endWait(of: ticket, by: route) : nil
    defer { timer?.cancel() }
    let outcome = await withTaskCancellationHandler {
      await waiting.get()
    } onCancel: {
      leave(ticket)
    }
    return (outcome, !isNew)
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
    let (waiter, task) = withState { state -> (OneShot<Outcome>?, Task<Void, Never>?) in
      guard case .left(let waiter, let cancelsFlight) = state.coalescer.leave(ticket) else { return (nil, nil) }
      return (waiter, cancelsFlight ? state.tasks.removeValue(forKey: ticket.flight) : nil)
    }
    task?.cancel()
    waiter?.resume(.cancelled)
  }

  /// Fetches the response and resumes all waiting callers with it.
  private func runCoalesced(
    _ flight: FlightID, _ call: CatalogCall, validating stored: Selection?, _ reason: ForwardReason,
    leader: OneShot<Outcome>, by route: UpstreamRoute, end: Duration
  ) async {
    let outcome = await fetch(call, validating: stored, reason, by: route, end: end)
    let waiters = withState { state in
      state.tasks[flight] = nil
      return state.coalescer.complete(flight)
    }
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
  func fetch(
    _ call: CatalogCall, validating stored: Selection?, _ reason: ForwardReason, by route: UpstreamRoute, end: Duration
  ) async -> Outcome {
    var fields = call.fields
    if let stored { for field in stored.response.validators { fields.append(field) } }
    let requestedAt = clock.now
    let exchange = CatalogExchange(
      UpstreamRequest(.get, call.target.target, fields: fields), for: call, end: end, route: route)
    switch await self.exchange(exchange) {
    case .failure(let failure): return .failure(failure)
    case .cancelled: return .cancelled
    case .response(let response, let permit) where response.status == .notModified:
      response.content.cancel()
      permit.release(.answered)
      guard let stored else { return .failure(.status(.notModified, nextHop: configuration.nextHop)) }
      let notModified = received(response, call, requestedAt)
      let settings = cacheSettings
      if let response = cache.freshen(stored.response, for: call.key, by: notModified, settings: settings) {
        if settings != cacheSettings { cache.remove(call.key) }
        return .response(response, isStored: true, forwardStatus: 304)
      }
      return await fetch(call, validating: nil, reason, by: route, end: end)
    case .response(let response, let permit):
      return await store(response, permit, call, requestedAt, route, end: end)
    }
  }

  /// Reads a response to its end and stores it, unless it is too long for the cache.
  private func store(
    _ response: UpstreamResponse, _ permit: HeldPermit, _ call: CatalogCall, _ requestedAt: CacheTime,
    _ route: UpstreamRoute, end: Duration
  ) async -> Outcome {
    var whole = received(response, call, requestedAt)
    let limit = configuration.cache.largestContent
    var parts = PartialContent(response.content, memory: configuration.memory)
    guard response.contentLength ?? 0 <= limit else { return .stream(held(response, permit, until: end, route)) }
    do throws(ContentError) {
      switch try await parts.read(upTo: limit, length: response.contentLength) {
      case .whole: permit.release(.answered)
      case .tooLong: return .stream(held(parts.response(response), permit, until: end, route))
      case .refused:
        response.content.cancel()
        permit.release(.inconclusive)
        return .failure(.overMemory)
      }
    } catch {
      permit.release(.inconclusive)
      return broken(error)
    }
    whole.body = parts.bytes
    do throws(ContentCodingError) {
      let settings = cacheSettings
      let response = try StoredResponse(whole, settings: settings)
      let isStored = cache.store(response, for: call.key)
      let now = clock.elapsed
      withState { $0.unsharedTargets.note(call.key, isShareable: response.isShareable, now: now) }
      // The settings changed meanwhile, so the stored mark may be wrong. The waiting callers still get the response.
      if settings != cacheSettings { cache.remove(call.key) }
      return .response(response, isStored: isStored, forwardStatus: nil)
    } catch .tooLarge where call.coding == .gzip {
      return .stream(parts.response(response))
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
    _ response: UpstreamResponse, _ call: CatalogCall, _ requestedAt: CacheTime
  ) -> ReceivedResponse {
    ReceivedResponse(
      status: response.status, fields: response.fields,
      downstream: policy.responseFields(response.fields, version: response.version), body: [],
      sent: call.fields, requestedAt: requestedAt, receivedAt: clock.now)
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
    var response = response
    response.content = Continuation(bytes, hold, then: isWhole ? nil : reader)
    return response
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
