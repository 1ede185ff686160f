import Bytes
import HTTP1
import HTTPTypes

/// The period in which a response may be used, and how (RFC 9111 §4.2, RFC 5861). All periods are in seconds.
struct Freshness: Equatable {
  let lifetime: Int
  /// Whether the origin stated the lifetime. Otherwise it comes from the settings.
  let isExplicit: Bool
  /// The time after the lifetime in which the response is served during validation.
  let staleWhileRevalidate: Int
  /// The time after the lifetime in which the response is served if the upstream fails.
  let staleIfError: Int
  /// Whether every use needs validation.
  let noCache: Bool
  /// Whether a stale use is forbidden, even if a caller or the settings allow it.
  let forbidsStale: Bool

  /// - Parameter date: When the response was created, in seconds since the epoch.
  init(
    _ directives: ResponseDirectives, fields: FieldLines, status: Int, date: Int, now: Int, settings: CacheSettings
  ) {
    let explicit =
      directives.sharedMaxAge ?? directives.maxAge ?? Self.lifetime(untilExpiry: fields, date: date, now: now)
    let usual = status == 404 || status == 410 ? settings.negativeLifetime : settings.lifetime
    lifetime = explicit ?? usual
    isExplicit = explicit != nil
    noCache = directives.noCache
    forbidsStale = directives.forbidsStale
    let whileRevalidate = directives.staleWhileRevalidate ?? (explicit == nil ? settings.staleWhileRevalidate : 0)
    staleWhileRevalidate = forbidsStale ? 0 : whileRevalidate
    staleIfError = forbidsStale ? 0 : directives.staleIfError ?? settings.staleIfError
  }

  /// Returns the lifetime that `Expires` states (RFC 9111 §5.3), or nil without the field. An invalid date, most often
  /// "0", counts as past, and so do two different values.
  static func lifetime(untilExpiry fields: FieldLines, date: Int, now: Int) -> Int? {
    let lines = fields.lines.filter { fields.bytes.span.equalsIgnoringCase($0.name, "expires") }
    guard let first = lines.first else { return nil }
    let isConsistent = lines.allSatisfy { fields.bytes[$0.value] == fields.bytes[first.value] }
    guard isConsistent, let expiry = FieldDate.seconds(fields.bytes.span.extracting(first.value), now: now) else {
      return 0
    }
    return min(max(expiry - date, 0), FieldText.mostSeconds)
  }
}

/// The directives of a response's `Cache-Control` (RFC 9111 §5.2.2, RFC 5861).
///
/// A malformed directive makes the cache more careful, never less. An invalid delta-seconds value counts as 0, and so
/// does a directive that occurs twice with different values (RFC 9111 §4.2.1). A quoted string without an end counts as
/// `no-store`, because it may contain that directive.
struct ResponseDirectives: Equatable {
  /// Whether the response must not be stored. `must-understand` overrides this for statuses that the cache understands.
  var noStore = false
  /// Whether the response is for one user. `private="X"`, which names fields, has the same effect, as §5.2.2.7 allows
  /// and most caches do.
  var isPrivate = false
  /// Whether the response needs validation before each use. `no-cache="X"` has the same effect (§5.2.2.4).
  var noCache = false
  var mustRevalidate = false
  var proxyRevalidate = false
  var mustUnderstand = false
  var noTransform = false
  var maxAge: Int?
  var sharedMaxAge: Int?
  var staleWhileRevalidate: Int?
  var staleIfError: Int?

  init(_ fields: FieldLines) {
    fields.forEachValue(of: "cache-control") { add($0) }
  }

  /// Whether a stale response needs successful validation before use, in every case. `s-maxage` implies
  /// `proxy-revalidate` (§5.2.2.10).
  var forbidsStale: Bool { noCache || mustRevalidate || proxyRevalidate || sharedMaxAge != nil }

  private mutating func add(_ value: Span<UInt8>) {
    var scanner = FieldScanner()
    while let directive = scanner.directive(in: value) {
      apply(directive, in: value)
      if directive.argument == .unterminated { noStore = true }
    }
  }

  private mutating func apply(_ directive: CacheDirective, in value: Span<UInt8>) {
    func isNamed(_ name: StaticString) -> Bool { value.equalsIgnoringCase(directive.name, name) }
    func merge(_ present: Int?) -> Int {
      let seconds = directive.seconds(in: value) ?? 0
      return present.map { $0 == seconds ? seconds : 0 } ?? seconds
    }
    switch directive.name.count {
    case 7 where isNamed("max-age"): maxAge = merge(maxAge)
    case 7 where isNamed("private"): isPrivate = true
    case 8 where isNamed("no-store"): noStore = true
    case 8 where isNamed("no-cache"): noCache = true
    case 8 where isNamed("s-maxage"): sharedMaxAge = merge(sharedMaxAge)
    case 12 where isNamed("no-transform"): noTransform = true
    case 14 where isNamed("stale-if-error"): staleIfError = merge(staleIfError)
    case 15 where isNamed("must-revalidate"): mustRevalidate = true
    case 15 where isNamed("must-understand"): mustUnderstand = true
    case 16 where isNamed("proxy-revalidate"): proxyRevalidate = true
    case 22 where isNamed("stale-while-revalidate"): staleWhileRevalidate = merge(staleWhileRevalidate)
    default: break
    }
  }
}

/// The age of a response on arrival (RFC 9111 §4.2.3), in seconds.
struct ResponseAge: Equatable {
  /// When the origin created the response, by its own clock, in seconds since the epoch. If the origin sends no valid
  /// date, the time of arrival by our clock (RFC 9110 §6.6.1).
  let date: Int
  /// `corrected_initial_age`.
  let initial: Int

  init(_ fields: FieldLines, requestedAt: CacheTime, receivedAt: CacheTime) {
    date = FieldDate.seconds(ofOnly: "date", in: fields, now: receivedAt.wall) ?? receivedAt.wall
    let apparent = max(receivedAt.wall - date, 0)
    let delay = receivedAt.seconds(since: requestedAt)
    initial = min(max(apparent, Self.age(fields) + delay), FieldText.mostSeconds)
  }

  /// Returns the value of `Age`. The first member of a list counts. An invalid number is ignored (RFC 9111 §5.1).
  private static func age(_ fields: FieldLines) -> Int {
    let bytes = fields.bytes.span
    guard let first = fields.lines.first(where: { bytes.equalsIgnoringCase($0.name, "age") }) else { return 0 }
    let value = bytes.extracting(first.value)
    var scanner = FieldScanner()
    scanner.skipWhitespace(in: value)
    let number = scanner.token(in: value)
    return FieldText.deltaSeconds(number, of: value) ?? 0
  }
}

/// Whether a whole response to a `GET` may be stored in a cache that all callers share (RFC 9111 §3).
///
/// RFC 9111 §3.5 keeps responses to requests with `Authorization` out of shared caches, because they may be meant only
/// for the holder of that credential. Here the proxy itself holds it and sends the same credential for all callers.
/// From a caller's request it sends only the parts that belong to the key or that `Vary` selects by. So Apple sees one
/// user, and every caller that may use this proxy may have the response. That clause therefore protects no caller here.
/// The proxy still obeys `private` and `no-store`, because an origin states them explicitly.
public enum StorageVerdict: Sendable, Equatable {
  case store
  case refuse(Reason)

  /// The reason why a response is not stored.
  public enum Reason: Sendable {
    /// The status is not worth storing: a temporary error, or a status about the credential.
    case status
    /// The content is only a part of a representation (RFC 9110 §14.4).
    case partial
    case noStore
    case isPrivate
    /// `Vary: *`, or a malformed `Vary`.
    case vary
    /// The response sets a cookie, which is not for other callers.
    case setCookie
    /// The proxy can neither decode nor offer the content coding.
    case coding
    /// The content exceeds the limit for one response.
    case tooLarge
    /// The response could never be used: it is stale at once and has no validator.
    case useless
  }

  /// Returns whether the status may be stored. The statuses are heuristically cacheable (RFC 9110 §15.1), used by
  /// Apple, and lasting. 206 is excluded, because the proxy never sends `Range` upstream.
  static func mayStore(_ status: HTTPResponse.Status) -> Bool {
    switch status.code {
    case 200, 301, 308, 404, 410: true
    default: false
    }
  }

  init(
    _ response: ReceivedResponse, content: StoredContent, directives: ResponseDirectives, freshness: Freshness,
    isSelectable: Bool, settings: CacheSettings
  ) {
    let fields = response.fields
    func refusal() -> Reason? {
      if !Self.mayStore(response.status) { return .status }
      if fields.has("content-range") { return .partial }
      if content.unknownCoding != nil { return .coding }
      if content.identity.count > settings.largestStored { return .tooLarge }
      // The cache understands all these statuses, so must-understand overrides no-store (RFC 9111 §5.2.2.3).
      if directives.noStore, !directives.mustUnderstand { return .noStore }
      if directives.isPrivate { return .isPrivate }
      if fields.has("set-cookie") { return .setCookie }
      if !isSelectable { return .vary }
      let isUsableUnvalidated =
        !freshness.noCache && (freshness.lifetime > 0 || freshness.staleWhileRevalidate + freshness.staleIfError > 0)
      if !isUsableUnvalidated, !fields.has("etag"), !fields.has("last-modified") { return .useless }
      return nil
    }
    self = refusal().map { .refuse($0) } ?? .store
  }
}
