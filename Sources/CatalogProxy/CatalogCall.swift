import Bytes
public import HTTP1
public import HTTPCache
public import HTTPMessages
public import HTTPTypes
public import Memory
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
  /// - Parameter fields: The result of ``HeaderPolicy/requestFields(for:from:hasContent:acceptsGzip:)``.
  public init(
    _ method: HTTPRequest.Method, _ target: CatalogTarget, caller: QuotaCaller, directives: RequestDirectives,
    preconditions: Preconditions, coding: ContentCoding, fields: FieldLines, span: SpanContext? = nil,
    holder: MemoryBudget.Holder? = nil
  ) {
    (self.method, self.target, self.caller, self.directives) = (method, target, caller, directives)
    (self.preconditions, self.coding, self.fields) = (preconditions, coding, fields)
    (self.span, self.holder) = (span, holder)
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

/// A call that needs a request to Apple.
final class CatalogMiss: Sendable {
  let call: CatalogCall
  /// The stored response to validate; nil without one, and for a call without the cache.
  let stored: Selection?
  let reason: ForwardReason
  /// How long the call has waited for its turn on its event loop.
  let waited: Duration
  /// The deadline.
  let end: Duration
  /// The route to the upstream from the caller's loop.
  let route: UpstreamRoute

  /// - Parameter lookup: Nil for a call without the cache: for a user, for `/v1/test`, or with `no-store`.
  init(_ call: CatalogCall, after lookup: Lookup?, waited: Duration, end: Duration, route: UpstreamRoute) {
    stored = lookup?.stored
    reason =
      switch lookup {
      case nil: call.target.isStorable ? .request : .bypass
      case .validate(_, let reason)?, .miss(let reason)?: reason
      case .hit?, .staleWhileRevalidate?: .stale
      case .unsatisfiable?: .uriMiss
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

extension CircuitSubject {
  /// Creates the subject of a call. All callers share a storable resource. Any other resource belongs to one caller,
  /// because the method, the content or the music user token may cause a failure.
  init(_ call: CatalogCall) {
    let caller = Hasher.hash { $0.combine(call.caller) }
    let resource =
      call.target.isStorable
      ? call.key.fingerprint
      : Hasher.hash { hasher in
        hasher.combine(caller)
        hasher.combine(call.method)
        hasher.combine(call.target.bytes)
        for value in call.fields[values: .musicUserToken] { hasher.combine(utf8: value) }
      }
    self.init(client: call.caller.client.hash, caller: caller, resource: resource)
  }
}

extension Hasher {
  fileprivate mutating func combine(utf8 text: String) {
    var text = text
    combine(text.utf8.count)
    // Safe: the hasher does not keep the pointer.
    text.withUTF8 { unsafe combine(bytes: UnsafeRawBufferPointer($0)) }
  }
}

extension HTTPField.Name {
  static let musicUserToken = HTTPField.Name.literal("Music-User-Token")
}
