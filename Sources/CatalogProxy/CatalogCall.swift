public import HTTP1
public import HTTPCache
public import HTTPMessages
public import HTTPTypes
public import Memory
import Synchronization
public import Tracing
public import UpstreamAdmission

/// One validated request of a caller, with everything that the phases need to know about it. Immutable: whatever waits
/// for a response keeps one reference to it.
public final class CatalogCall: Sendable {
  /// The resource that the request names.
  public let target: CatalogTarget
  /// The request's method.
  public let method: HTTPRequest.Method
  /// The caller, for fair sharing of the quota.
  public let caller: QuotaCaller
  /// The directives of the request's `Cache-Control`.
  public let directives: RequestDirectives
  /// The request's preconditions, which describe the response that the caller already has.
  public let preconditions: Preconditions
  /// The content coding that the caller prefers.
  public let coding: ContentCoding
  /// The end-to-end fields to send upstream, without the credential.
  public let fields: FieldLines

  /// The server's span of the request, or nil to send no trace context. It is not part of the key: requests of
  /// different traces share a response.
  public let span: SpanContext?

  /// The address that memory for the call is charged to; nil for the server itself.
  let holder: MemoryBudget.Holder?

  let key: CacheKey

  /// Creates a call.
  ///
  /// - Parameters:
  ///   - caller: The caller, for fair sharing of the quota.
  ///   - directives: The directives of the request's `Cache-Control`.
  ///   - preconditions: The request's preconditions.
  ///   - coding: The content coding that the caller prefers.
  ///   - fields: The result of ``HeaderPolicy/requestFields(for:from:hasContent:acceptsGzip:)``.
  ///   - span: The server's span of the request.
  ///   - holder: The address that memory for the call is charged to; nil for the server itself.
  public init(
    _ method: HTTPRequest.Method, _ target: CatalogTarget, caller: QuotaCaller, directives: RequestDirectives,
    preconditions: Preconditions, coding: ContentCoding, fields: FieldLines, span: SpanContext? = nil,
    holder: MemoryBudget.Holder? = nil
  ) {
    self.method = method
    self.target = target
    self.caller = caller
    self.directives = directives
    self.preconditions = preconditions
    self.coding = coding
    self.fields = fields
    self.span = span
    self.holder = holder
    key = CacheKey(target.cacheKey)
  }

  private init(_ call: CatalogCall, caller: QuotaCaller) {
    (method, target, self.caller, directives) = (call.method, call.target, caller, call.directives)
    (preconditions, coding, fields, span) = (call.preconditions, call.coding, call.fields, call.span)
    (holder, key) = (call.holder, call.key)
  }

  /// Returns the request as that of an identified caller.
  public func charged(to caller: QuotaCaller) -> CatalogCall {
    CatalogCall(self, caller: caller)
  }

  /// Whether the cache may store or serve the response.
  var isCacheable: Bool { target.isStorable && (method == .get || method == .head) && !directives.noStore }
}

/// The result of a call.
public enum CatalogReply: Sendable {
  /// Apple's response, fresh or from the cache.
  case response(Response)
  /// An error of this server, because there is no response from Apple.
  case failure(ErrorResponse)
  /// The caller has disconnected.
  case cancelled
}

/// A call for a storable resource that needs a request to Apple.
final class CatalogMiss: Sendable {
  let call: CatalogCall
  /// The stored response to validate; nil without one.
  let stored: Selection?
  /// The reason for the request to Apple.
  let reason: ForwardReason
  /// How long the call has waited for its turn on its event loop.
  let waited: Duration
  /// The deadline.
  let end: Duration
  /// The route to the upstream from the caller's loop.
  let route: UpstreamRoute

  init(_ call: CatalogCall, after lookup: Lookup, waited: Duration, end: Duration, route: UpstreamRoute) {
    stored = lookup.stored
    reason =
      switch lookup {
      case .validate(_, let reason), .miss(let reason): reason
      case .hit, .staleWhileRevalidate: .stale
      case .unsatisfiable: .uriMiss
      }
    (self.call, self.waited, self.end, self.route) = (call, waited, end, route)
  }
}

extension Lookup {
  /// The stored response, fresh or stale. Nil without one.
  var stored: Selection? {
    switch self {
    case .validate(let selection, _), .hit(let selection), .staleWhileRevalidate(let selection): selection
    case .miss, .unsatisfiable: nil
    }
  }
}

/// A request to the upstream with all its attempts, the caller that its quota is charged to, and its deadline.
///
/// Each attempt takes one turn of the caller's share, whatever the fields say. Apple counts one request even if the
/// caller forces a validation, sends `no-store`, or adds a parameter that no other caller uses.
final class CatalogExchange: @unchecked Sendable {
  // Sendable by confinement: only the task that sends the request uses it.

  /// The call, as that of the caller that pays for the request.
  private(set) var call: CatalogCall
  /// The flight that the request belongs to; nil if no other caller waits for the response.
  let flight: FlightID?
  /// The method of the request to the upstream.
  let method: HTTPRequest.Method
  /// The end-to-end fields of every attempt.
  let fields: FieldLines
  /// How long the call has waited for its turn on its event loop.
  let waited: Duration
  /// The subject of the request, for the circuit.
  private(set) var subject: CircuitSubject
  /// The deadline, including retries and waits.
  let end: Duration
  /// The route to the upstream.
  let route: UpstreamRoute
  /// The request's content. Content that has been read once cannot be sent again, so the wrapper records reads.
  var content: WatchedContent?
  /// The length of the content in bytes; nil if it is not known.
  let contentLength: Int?
  /// The stored response that the request validates; nil to fetch the whole response.
  let stored: StoredResponse?
  /// When it began. The age of the response counts from then (RFC 9111 §4.2.3).
  let requestedAt: CacheTime

  /// The number of the attempt.
  var number = 1
  /// Whether the response to the last attempt was 429.
  var isLimited = false
  /// What Apple said in the last response with 429; nil without one.
  var lastRefusal: ReplacedResponse?
  /// Whether the server requested a new token for the request after a 401.
  var hasFreshToken = false

  /// Creates the exchange of a call whose response is not stored.
  init(
    forwarding call: CatalogCall, content: (any ContentReader)?, contentLength: Int?, waited: Duration, end: Duration,
    route: UpstreamRoute, at time: CacheTime
  ) {
    (stored, requestedAt, flight) = (nil, time, nil)
    self.content = content.map { WatchedContent($0) }
    (method, fields, self.contentLength) = (call.method, call.fields, contentLength)
    subject = CircuitSubject(call)
    (self.call, self.waited, self.end, self.route) = (call, waited, end, route)
  }

  /// Creates the exchange of a call whose response another caller has, because it was too long to share.
  convenience init(forwarding miss: CatalogMiss, at time: CacheTime) {
    self.init(
      forwarding: miss.call, content: nil, contentLength: nil, waited: miss.waited, end: miss.end, route: miss.route,
      at: time)
  }

  /// Creates the exchange that fetches a storable resource.
  ///
  /// - Parameters:
  ///   - stored: The stored response to validate; nil to fetch the whole response.
  ///   - flight: The flight that sends the request; nil for a caller's own request.
  init(
    fetching miss: CatalogMiss, validating stored: StoredResponse?, as flight: FlightID? = nil, at time: CacheTime
  ) {
    self.flight = flight
    (call, waited, end, route, content) = (miss.call, miss.waited, miss.end, miss.route, nil)
    var fields = call.fields
    if let stored { fields.append(contentsOf: stored.validators) }
    (method, self.fields, contentLength) = (.get, fields, nil)
    (self.stored, requestedAt) = (stored, time)
    subject = CircuitSubject(call)
  }

  /// Creates the exchange that fetches the whole response after one that did not match the stored response.
  init(repeating exchange: CatalogExchange, at time: CacheTime) {
    (call, method, content, contentLength) = (exchange.call, .get, nil, nil)
    (waited, end, route, subject) = (exchange.waited, exchange.end, exchange.route, exchange.subject)
    (fields, stored, requestedAt, flight) = (exchange.call.fields, nil, time, exchange.flight)
  }

  /// Whether 304 is a possible response to the request (RFC 9110 §13.2.2).
  var isConditional: Bool { fields.has("if-none-match") || fields.has("if-modified-since") }

  /// The caller that the quota is charged to.
  var caller: QuotaCaller { call.caller }

  /// Charges the request to the caller whose place in the queue has given it its turn.
  func charge(to caller: QuotaCaller) {
    guard caller != call.caller else { return }
    call = call.charged(to: caller)
    subject = CircuitSubject(call)
  }

  /// Whether the response depends on a user, so that a 401 may be about the user's token, or about its absence.
  var isForUser: Bool { call.target.asksForUser }

  /// Whether the content is unread, so that the request can be sent again.
  var isUntouched: Bool { !(content?.isTouched ?? false) }

  /// The result of an exchange.
  enum Result: Sendable {
    /// A response, and its attempt with the turn to release when the content is read or cancelled. The state may not
    /// know its head yet.
    case response(UpstreamResponse, CatalogAttempt)
    indirect case failure(UpstreamFailure)
    /// The caller has disconnected.
    case cancelled
  }

  /// Content that records whether it was read, and whether it broke off.
  final class WatchedContent: ContentReader, @unchecked Sendable {
    // Sendable by confinement, as is the content itself.
    let reader: any ContentReader
    private(set) var isTouched = false
    private(set) var isBroken = false

    init(_ reader: any ContentReader) {
      self.reader = reader
    }

    func read() async throws(ContentError) -> [UInt8]? {
      isTouched = true
      do throws(ContentError) {
        return try await reader.read()
      } catch {
        isBroken = true
        throw error
      }
    }

    func cancel() {
      reader.cancel()
    }
  }
}

/// One attempt of an exchange: its turn at the upstream, what it is sent with, and what the state must learn from it. The
/// state learns from a complete response in one visit, at the end of the attempt.
///
/// The turn is released exactly once: when the response is complete or cancelled, or with this object.
final class CatalogAttempt: @unchecked Sendable {
  // Sendable by confinement to the flight or task that sends the request. Any thread may release the turn.
  private let permit: ConcurrencyPermit
  private let gateway: CatalogGateway
  private let isReleased = Atomic(false)
  let pass: UpstreamCircuit.Pass
  let token: ProxyToken
  /// The span of the attempt; nil if the request has none.
  let span: SpanContext?
  /// When it is sent.
  let start: CacheTime
  /// What the head of the response shows; nil before there is one, and when the state knows it.
  var head: HeadFacts?
  /// Whether callers may share the response that was stored; nil for none.
  var isShareable: Bool?

  init(
    _ permit: ConcurrencyPermit, of gateway: CatalogGateway, _ pass: UpstreamCircuit.Pass, _ token: ProxyToken,
    _ span: SpanContext?, at start: CacheTime
  ) {
    (self.permit, self.gateway) = (permit, gateway)
    (self.pass, self.token, self.span, self.start) = (pass, token, span, start)
  }

  deinit { release(.inconclusive) }

  /// Whether the turn has been released.
  var isOver: Bool { isReleased.load(ordering: .relaxed) }

  /// Releases the turn with the upstream's outcome. A second call does nothing.
  func release(_ outcome: ConcurrencyOutcome) {
    if let permit = takePermit() { gateway.release(permit, outcome) }
  }

  /// Returns the turn for the caller to release; nil if it was released before.
  func takePermit() -> ConcurrencyPermit? {
    isReleased.exchange(true, ordering: .relaxed) ? nil : permit
  }
}

/// What the head of a response shows about the upstream, for the state.
struct HeadFacts: Sendable {
  let circuit: CircuitOutcome
  /// Whether Apple has accepted the developer token.
  let provesToken: Bool
  /// Whether the caller gets the response.
  let isFinal: Bool
  /// The value of `Date` in seconds since 1970; nil if it does not tell the upstream's present time.
  let date: Int?
  let receivedAt: CacheTime
}

/// The result of a request to the upstream, for all callers that wait for it. Rare results are indirect, so that the
/// others are small.
enum Outcome: Sendable {
  /// A whole response. `isStored`: the cache has it. `forwardStatus`: the upstream's status if it differs (304).
  case response(StoredResponse, isStored: Bool, forwardStatus: Int?)
  /// A fresh response that another replica has stored. Each caller decides whether it may have it.
  case shared(StoredResponse)
  /// A response that is too long to store or share, so only one caller can have it.
  indirect case stream(UpstreamResponse)
  /// Another caller has the response, which was too long to share: send the request separately without the cache.
  case alone
  /// Another caller has the response, which only that caller may have: send the request separately.
  case unshared
  /// The request takes long, and the caller may have a stale response instead.
  case late
  /// The request failed, so there is no response.
  indirect case failure(UpstreamFailure)
  /// All callers have stopped waiting.
  case cancelled
}

/// The result of waiting for a turn.
enum Admission: Sendable {
  /// The request may be sent, and this caller pays for it.
  case granted(ConcurrencyPermit, to: QuotaCaller)
  /// The queue is full.
  case refused(retryAfter: Duration)
  /// The turn did not come before the deadline.
  case timedOut
  /// The caller has disconnected.
  case cancelled
}

/// The upstream connections of one event loop, and that loop.
public final class UpstreamRoute: Sendable {
  /// The upstream that receives the requests.
  public let upstream: any Upstream
  /// The event loop on which the upstream runs.
  public let executor: any TaskExecutor
  /// The cache that this replica shares with others; nil without one.
  package let shared: (any SharedCache)?

  /// Creates a route.
  public convenience init(_ upstream: any Upstream, executor: any TaskExecutor) {
    self.init(upstream, executor: executor, shared: nil)
  }

  /// Creates a route of a replica that may share its responses with others.
  package init(_ upstream: any Upstream, executor: any TaskExecutor, shared: (any SharedCache)?) {
    self.upstream = upstream
    self.executor = executor
    self.shared = shared
  }
}
