import HTTP1
public import HTTPCache
public import HTTPMessages
public import HTTPTypes
public import Tracing
public import UpstreamAdmission

/// One validated request of a caller, with everything that the phases need to know about it.
public struct CatalogCall: Sendable {
  /// The resource that the request names.
  public let target: CatalogTarget
  /// The request's method.
  public let method: HTTPRequest.Method
  /// The caller, for fair sharing of the quota.
  public var caller: QuotaCaller
  /// How long the request has waited for its turn on its event loop.
  public var waited = Duration.zero
  /// The directives of the request's `Cache-Control`.
  public let directives: RequestDirectives
  /// The request's preconditions, which describe the response that the caller already has.
  public let preconditions: Preconditions
  /// The content coding that the caller prefers.
  public let coding: ContentCoding
  /// The end-to-end fields to send upstream, without the credential.
  public private(set) var fields: HTTPFields

  /// The server's span of the request, or nil to send no trace context. It is not part of the key: requests of
  /// different traces share a response.
  public let span: SpanContext?

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
  public init(
    _ method: HTTPRequest.Method, _ target: CatalogTarget, caller: QuotaCaller, directives: RequestDirectives,
    preconditions: Preconditions, coding: ContentCoding, fields: HTTPFields, span: SpanContext? = nil
  ) {
    self.method = method
    self.target = target
    self.caller = caller
    self.directives = directives
    self.preconditions = preconditions
    self.coding = coding
    self.fields = fields
    self.span = span
    key = CacheKey(target.cacheKey)
  }

  /// Removes the music user token from the request, for a caller that may not use the token.
  public mutating func withholdUserToken() {
    guard target.forwardsUserToken, let name = Self.userToken else { return }
    fields[name] = nil
  }

  private static let userToken = HTTPField.Name("Music-User-Token")

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

/// A request to the upstream, with the caller that its quota is charged to and its deadline.
///
/// Each attempt takes one turn of the caller's share, whatever the fields say. Apple counts one request even if the
/// caller forces a validation, sends `no-store`, or adds a parameter that no other caller uses.
struct CatalogExchange {
  /// The request without the credential.
  let request: UpstreamRequest
  /// The caller that the quota is charged to.
  let caller: QuotaCaller
  /// How long it has waited before.
  let waited: Duration
  /// The template of the path.
  let pathTemplate: StaticString
  /// The subject of the request, for the circuit.
  let subject: CircuitSubject
  /// The deadline, including retries and waits.
  let end: Duration
  /// The route to the upstream.
  let route: UpstreamRoute
  /// Whether the response depends on a user, so that a 401 may be about the user's token.
  let isForUser: Bool
  /// The span that causes the request: that of the caller that began it.
  let span: SpanContext?
  /// The request's content. Content that has been read once cannot be sent again, so the wrapper records reads.
  let content: WatchedContent?

  init(
    _ request: UpstreamRequest, for call: CatalogCall, end: Duration, route: UpstreamRoute
  ) {
    var request = request
    content = request.content.map { WatchedContent($0) }
    request.content = content
    self.request = request
    (caller, waited) = (call.caller, call.waited)
    subject = CircuitSubject(call)
    self.end = end
    self.route = route
    isForUser = call.target.wantsUserToken
    span = call.span
    pathTemplate = call.target.route
  }

  /// Whether the content is unread, so that the request can be sent again.
  var isUntouched: Bool { !(content?.isTouched ?? false) }

  /// The result of an exchange.
  enum Result {
    /// A response, and the turn to release when the content is read or cancelled.
    case response(UpstreamResponse, HeldPermit)
    case failure(UpstreamFailure)
    /// The caller has disconnected.
    case cancelled
  }

  /// Content that records whether it was read, and whether it broke off.
  final class WatchedContent: ContentReader, @unchecked Sendable {
    // Sendable by confinement, as is the content itself.
    private let reader: any ContentReader
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

/// The result of a request to the upstream, for all callers that wait for it.
enum Outcome: Sendable {
  /// A whole response. `isStored`: the cache has it. `forwardStatus`: the upstream's status if it differs (304).
  case response(StoredResponse, isStored: Bool, forwardStatus: Int?)
  /// A response that is too long to store or share, so only one caller can have it.
  case stream(UpstreamResponse)
  /// Another caller has the response, which was too long to share: send the request separately without the cache.
  case alone
  /// Another caller has the response, which only that caller may have: send the request separately.
  case unshared
  /// The request takes long, and the caller may have a stale response instead.
  case late
  /// The request failed, so there is no response.
  case failure(UpstreamFailure)
  /// All callers have stopped waiting.
  case cancelled
}

/// The result of waiting for a turn.
enum Admission: Sendable {
  /// The request may be sent.
  case granted(ConcurrencyPermit)
  /// The queue is full.
  case refused(retryAfter: Duration)
  /// The turn did not come before the deadline.
  case timedOut
  /// The caller has disconnected.
  case cancelled
}

/// The upstream connections of one event loop, and that loop.
public struct UpstreamRoute: Sendable {
  /// The upstream that receives the requests.
  public let upstream: any Upstream
  /// The event loop on which the upstream runs.
  public let executor: any TaskExecutor

  /// Creates a route.
  public init(_ upstream: any Upstream, executor: any TaskExecutor) {
    self.upstream = upstream
    self.executor = executor
  }
}
