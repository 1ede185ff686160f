import Bytes
package import HTTP1
package import HTTPCache
package import HTTPMessages
package import HTTPTypes
package import Memory
package import Tracing
import UpstreamAdmission

/// One validated request of a caller, with everything that the phases need to know about it. Immutable: whatever waits
/// for a response keeps one reference to it.
package final class CatalogCall: Sendable {
  package let target: CatalogTarget
  package let method: HTTPRequest.Method
  package let directives: RequestDirectives
  /// What describes the response that the caller already has.
  package let preconditions: Preconditions
  package let coding: ContentCoding
  /// The end-to-end fields to send upstream, without the credential.
  package let fields: FieldLines
  /// The server's span of the request, or nil to send no trace context. It is not part of the key: requests of different
  /// traces share a response.
  package let span: SpanContext?
  /// The address that memory for the call is charged to; nil for the server itself.
  let holder: MemoryBudget.Holder?
  let key: CacheKey

  /// - Parameter fields: The result of ``HeaderPolicy/requestFields(for:from:hasContent:acceptsGzip:)``.
  package init(
    _ method: HTTPRequest.Method, _ target: CatalogTarget, directives: RequestDirectives, preconditions: Preconditions,
    coding: ContentCoding, fields: FieldLines, span: SpanContext? = nil, holder: MemoryBudget.Holder? = nil
  ) {
    (self.method, self.target, self.directives) = (method, target, directives)
    (self.preconditions, self.coding, self.fields) = (preconditions, coding, fields)
    (self.span, self.holder) = (span, holder)
    key = CacheKey(target.cacheKey)
  }

  var isCacheable: Bool { target.isStorable && (method == .get || method == .head) && !directives.noStore }
}

package enum CatalogReply: Sendable {
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
  /// The caller that the quota is charged to.
  let payer: QuotaCaller
  /// The stored response to validate; nil without one, and for a call without the cache.
  let stored: Selection?
  let reason: ForwardReason
  /// How long the call has waited for its turn on its event loop.
  let waited: Duration
  let end: Duration
  let route: UpstreamRoute

  /// - Parameter lookup: Nil for a call without the cache: for a user, for `/v1/test`, or with `no-store`.
  init(
    _ call: CatalogCall, for payer: QuotaCaller, after lookup: Lookup?, waited: Duration, end: Duration,
    route: UpstreamRoute
  ) {
    stored = lookup?.stored
    reason =
      switch lookup {
      case nil: call.target.isStorable ? .request : .bypass
      case .validate(_, let reason)?, .miss(let reason)?: reason
      case .hit?, .staleWhileRevalidate?: .stale
      case .unsatisfiable?: .uriMiss
      }
    (self.call, self.payer, self.waited, self.end, self.route) = (call, payer, waited, end, route)
  }
}

extension Lookup {
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
  init(_ call: CatalogCall, for payer: QuotaCaller) {
    let caller = Hasher.hash { $0.combine(payer) }
    let resource =
      call.target.isStorable
      ? call.key.fingerprint
      : Hasher.hash { hasher in
        hasher.combine(caller)
        hasher.combine(call.method)
        hasher.combine(call.target.bytes)
        for value in call.fields[values: .musicUserToken] { hasher.combine(utf8: value) }
      }
    self.init(client: payer.client.hash, caller: caller, resource: resource)
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
