import HTTPTypes

/// How long a response may be used, and how (RFC 9111 §4.2, RFC 5861). Lengths of time in seconds.
struct Freshness: Equatable {
  /// The freshness lifetime.
  let lifetime: Int
  /// Whether the origin named it, rather than our settings.
  let isExplicit: Bool
  /// How long beyond it the response is served while it is being validated.
  let staleWhileRevalidate: Int
  /// How long beyond it the response stands in for an upstream that fails.
  let staleIfError: Int
  /// Whether it may not be used at all without validation.
  let noCache: Bool
  /// Whether it may not be used stale, not even if a caller or our settings would have it.
  let forbidsStale: Bool

  /// - Parameters:
  ///   - directives: `Cache-Control` of the response.
  ///   - fields: All of its fields.
  ///   - status: Its status code.
  ///   - date: When it was made, in seconds since the epoch.
  init(
    _ directives: ResponseDirectives, fields: HTTPFields, status: Int, date: Int, now: Int, settings: CacheSettings
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

  /// The lifetime that `Expires` names (RFC 9111 §5.3). What is no date, "0" above all, lies in the past, and so do two
  /// that differ. Nil without the field.
  static func lifetime(untilExpiry fields: HTTPFields, date: Int, now: Int) -> Int? {
    let values = fields[values: .expires]
    guard let value = values.first else { return nil }
    guard values.allSatisfy({ $0.utf8.elementsEqual(value.utf8) }), let expiry = FieldDate.seconds(value, now: now)
    else { return 0 }
    return min(max(expiry - date, 0), FieldText.mostSeconds)
  }
}

/// How old a response was when it came (RFC 9111 §4.2.3), in seconds.
struct ResponseAge: Equatable {
  /// When its origin made it, by the origin's clock; by ours, when it came, if the origin does not say (RFC 9110
  /// §6.6.1). Seconds since the epoch.
  let date: Int
  /// `corrected_initial_age`.
  let initial: Int

  init(_ fields: HTTPFields, requestedAt: CacheTime, receivedAt: CacheTime) {
    let dates = fields[values: .date]
    date = (dates.count == 1 ? FieldDate.seconds(dates[0], now: receivedAt.wall) : nil) ?? receivedAt.wall
    let apparent = max(receivedAt.wall - date, 0)
    let delay = receivedAt.seconds(since: requestedAt)
    initial = min(max(apparent, Self.age(fields) + delay), FieldText.mostSeconds)
  }

  /// The value of `Age`. Of a list the first member counts, and what is no number does not (RFC 9111 §5.1).
  private static func age(_ fields: HTTPFields) -> Int {
    guard let first = fields[values: .age].first else { return 0 }
    let bytes = Array(first.utf8)
    var scanner = FieldScanner()
    scanner.skipWhitespace(in: bytes.span)
    let number = scanner.token(in: bytes.span)
    return FieldText.deltaSeconds(number, of: bytes.span) ?? 0
  }
}

/// Whether a whole response to a `GET` may be stored in a cache that all callers share (RFC 9111 §3).
///
/// RFC 9111 §3.5 keeps responses to requests with `Authorization` out of shared caches, because they may be meant only
/// for the holder of that credential. Here the proxy itself holds it: it sends the same credential for all callers.
/// From a caller's request it sends only what is part of the key or what `Vary` selects by. So Apple sees one user, and
/// every caller that may use this proxy may have the response that it got. That clause therefore protects no caller
/// here. The proxy still obeys `private` and `no-store`, because an origin states them explicitly.
public enum StorageVerdict: Sendable, Equatable {
  /// It may.
  case store
  /// It may not.
  case refuse(Reason)

  /// Why a response is not stored. The raw value is a `detail` for `Cache-Status`.
  public enum Reason: String, Sendable {
    /// The status is not worth repeating: a temporary error, or a status about the credential.
    case status
    /// Part of a representation (RFC 9110 §14.4).
    case partial
    /// `Cache-Control: no-store`.
    case noStore = "no-store"
    /// `Cache-Control: private`.
    case isPrivate = "private"
    /// `Vary: *`, or one that cannot be read.
    case vary
    /// It sets a cookie: for whomever that is meant, it is not for the next caller.
    case setCookie = "set-cookie"
    /// A content coding that we can neither undo nor offer.
    case coding
    /// Larger than one response may be.
    case tooLarge = "too-large"
    /// It could never be used: stale at once, with nothing to validate it by.
    case useless
  }

  /// The statuses that are stored: heuristically cacheable ones (RFC 9110 §15.1) that Apple uses and that stand for a
  /// while. 206 is not among them: `Range` is never sent upstream.
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
      if fields.contains(.contentRange) { return .partial }
      if content.unknownCoding != nil { return .coding }
      if content.identity.count > settings.largestStored { return .tooLarge }
      // All statuses above are understood, so with must-understand no-store does not count (RFC 9111 §5.2.2.3).
      if directives.noStore, !directives.mustUnderstand { return .noStore }
      if directives.isPrivate { return .isPrivate }
      if fields.contains(.setCookie) { return .setCookie }
      if !isSelectable { return .vary }
      let isUsableUnvalidated =
        !freshness.noCache && (freshness.lifetime > 0 || freshness.staleWhileRevalidate + freshness.staleIfError > 0)
      if !isUsableUnvalidated, !fields.contains(.eTag), !fields.contains(.lastModified) { return .useless }
      return nil
    }
    self = refusal().map { .refuse($0) } ?? .store
  }
}

/// A moment as the cache needs it: by the clock that never jumps, and by the one that servers write into `Date`.
///
/// Ages grow by the first (RFC 9111 §4.2.3 resident time), so that a step of the wall clock makes nothing fresh or stale.
public struct CacheTime: Sendable, Equatable {
  /// Nanoseconds of a monotonic clock, from any start.
  public var monotonic: Int
  /// Seconds since 1970-01-01 00:00:00 UTC.
  public var wall: Int

  /// A moment on both clocks.
  public init(monotonic: Int, wall: Int) {
    self.monotonic = monotonic
    self.wall = wall
  }

  /// Whole seconds from `earlier` to here by the monotonic clock; 0 if that is later than this.
  func seconds(since earlier: CacheTime) -> Int {
    let (nanoseconds, overflow) = monotonic.subtractingReportingOverflow(earlier.monotonic)
    return overflow ? 0 : max(nanoseconds, 0) / 1_000_000_000
  }
  /// By how many seconds the wall clock was set ahead between `earlier` and here; back if negative.
  package func wallClockStep(since earlier: CacheTime) -> Int {
    let (passed, overflow) = wall.subtractingReportingOverflow(earlier.wall)
    let step = passed.subtractingReportingOverflow(seconds(since: earlier))
    return overflow || step.overflow ? .max : step.partialValue
  }
}
