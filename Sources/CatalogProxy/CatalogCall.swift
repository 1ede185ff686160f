import HTTP1
public import HTTPCache
public import HTTPMessages
public import HTTPTypes
public import UpstreamAdmission

/// One caller's request, judged: everything that the phases need of it.
public struct CatalogCall: Sendable {
  /// What is asked for.
  public let target: CatalogTarget
  /// The method.
  public let method: HTTPRequest.Method
  /// The caller, for sharing the quota fairly.
  public var caller: QuotaCaller
  /// What its `Cache-Control` asks of caches.
  public let directives: RequestDirectives
  /// What it has already.
  public let preconditions: Preconditions
  /// The coding that it likes best.
  public let coding: ContentCoding
  /// The end-to-end fields to send upstream, without the credential.
  public private(set) var fields: HTTPFields

  let key: CacheKey

  /// A call.
  ///
  /// - Parameters:
  ///   - caller: The caller, for sharing the quota fairly.
  ///   - directives: What its `Cache-Control` asks of caches.
  ///   - preconditions: What it has already.
  ///   - coding: The coding that it likes best.
  ///   - fields: What ``HeaderPolicy`` made of its fields.
  public init(
    _ method: HTTPRequest.Method, _ target: CatalogTarget, caller: QuotaCaller, directives: RequestDirectives,
    preconditions: Preconditions, coding: ContentCoding, fields: HTTPFields
  ) {
    self.method = method
    self.target = target
    self.caller = caller
    self.directives = directives
    self.preconditions = preconditions
    self.coding = coding
    self.fields = fields
    key = CacheKey(target.cacheKey)
  }

  /// Removes the caller's music user token from the request, for a caller that may not use it.
  public mutating func withholdUserToken() {
    guard target.forwardsUserToken, let name = Self.userToken else { return }
    fields[name] = nil
  }

  private static let userToken = HTTPField.Name("Music-User-Token")

  /// Whether the cache is for such requests at all.
  var isCacheable: Bool { target.isStorable && (method == .get || method == .head) && !directives.noStore }
}

/// The result of a call.
public enum CatalogReply: Sendable {
  /// Apple's response, from the cache or fresh.
  case response(Response)
  /// There is no response of Apple's.
  case failure(ErrorResponse)
  /// The caller has gone away.
  case cancelled
}

/// A request to the upstream, with who is charged for it and until when it may take.
///
/// Each attempt takes one turn of its caller's share, whatever the request says: for Apple it is one request, whether the
/// caller forces a validation, wants nothing stored, or adds a parameter that no other caller uses.
struct CatalogExchange {
  /// The request, still without the credential.
  let request: UpstreamRequest
  /// Whose share of the quota it takes.
  let caller: QuotaCaller
  /// What it asks for and for whom, for the circuit.
  let subject: CircuitSubject
  /// When it ends, retries and waits included.
  let end: Duration
  /// By which it goes.
  let route: UpstreamRoute
  /// Whether the response depends on a user, whose token may be the one that is refused.
  let isForUser: Bool
  /// The request's content, watched: what has been read once cannot be sent again.
  let content: WatchedContent?

  init(
    _ request: UpstreamRequest, for call: CatalogCall, end: Duration, route: UpstreamRoute
  ) {
    var request = request
    content = request.content.map { WatchedContent($0) }
    request.content = content
    self.request = request
    caller = call.caller
    subject = CircuitSubject(call)
    self.end = end
    self.route = route
    isForUser = call.target.wantsUserToken
  }

  /// Whether it can be sent as it is.
  var isUntouched: Bool { !(content?.isTouched ?? false) }

  /// What it came to.
  enum Result {
    /// A response, and the turn that is to be given back when it is read or given up.
    case response(UpstreamResponse, HeldPermit)
    case failure(UpstreamFailure)
    /// The caller has gone.
    case cancelled
  }

  /// Content that knows whether anything of it has been asked for, and whether it broke off.
  final class WatchedContent: ContentReader, @unchecked Sendable {
    // Sendable by confinement, as the content itself.
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
  /// A whole response; `stored` if the cache took it, `forwardStatus` if the upstream's status was another (304).
  case response(StoredResponse, isStored: Bool, forwardStatus: Int?)
  /// A response too long to be kept, which only one caller can have.
  case stream(UpstreamResponse)
  /// Another caller has the response, which was too long to be shared: send the request separately.
  case alone
  /// Another caller has the response, and only that caller may have it: send the request separately.
  case unshared
  /// The request takes long, and the caller can have a stale response meanwhile.
  case late
  /// The request failed, so there is no response.
  case failure(UpstreamFailure)
  /// All callers have stopped waiting.
  case cancelled
}

/// The result of waiting for a turn.
enum Admission: Sendable {
  /// It is one's turn.
  case granted(ConcurrencyPermit)
  /// Too many wait already.
  case refused(retryAfter: Duration)
  /// It did not come in time.
  case timedOut
  /// The caller has gone away.
  case cancelled
}

/// The upstream as one event loop sees it, and that loop.
public struct UpstreamRoute: Sendable {
  /// Where requests are sent.
  public let upstream: any Upstream
  /// The loop, on which everything about it happens.
  public let executor: any TaskExecutor

  /// A route.
  public init(_ upstream: any Upstream, executor: any TaskExecutor) {
    self.upstream = upstream
    self.executor = executor
  }
}
