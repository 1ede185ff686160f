import Bytes
public import HTTP1
public import HTTPTypes

/// An upstream response to a `GET`, without its content. An object, because what is derived from it keeps it.
public final class ReceivedResponse: Sendable {
  let status: HTTPResponse.Status
  /// The fields for callers, and those by which the cache judges the response, now and when a 304 renews it.
  let fields: FieldLines
  /// The value of `Date` in seconds since the epoch; nil without a valid one.
  let date: Int?
  /// The fields of the upstream request, without the credential, by which `Vary` selects.
  let sent: FieldLines
  let requestedAt: CacheTime
  let receivedAt: CacheTime

  /// Creates a response with the fields that the header policy lets pass, and those by which the cache judges it. `date`: the
  /// value of `Date`, if it was read before.
  public init(
    status: HTTPResponse.Status, fields: FieldLines, date: Int? = nil, sent: FieldLines = [:], requestedAt: CacheTime,
    receivedAt: CacheTime
  ) {
    (self.status, self.fields, self.sent) = (status, fields, sent)
    self.date = date ?? FieldDate.seconds(ofOnly: "date", in: fields, now: receivedAt.wall)
    (self.requestedAt, self.receivedAt) = (requestedAt, receivedAt)
  }

  /// Returns whether the cache judges a response by this field, and sends it to no caller: either not at all, or with a
  /// value of its own. It also judges by fields that callers get.
  public static func isForCacheOnly(_ name: Range<Int>, in bytes: Span<UInt8>) -> Bool {
    switch name.count {
    case 3: bytes.equalsIgnoringCase(name, "age")
    case 4: bytes.equalsIgnoringCase(name, "date") || bytes.equalsIgnoringCase(name, "vary")
    case 7: bytes.equalsIgnoringCase(name, "expires")
    case 10: bytes.equalsIgnoringCase(name, "set-cookie")
    case 13: bytes.equalsIgnoringCase(name, "cache-control") || bytes.equalsIgnoringCase(name, "content-range")
    default: false
    }
  }

  /// Returns this response with the metadata of a 304 that confirms it (RFC 9111 §3.2). The fields that describe the content
  /// stay. Age and Date come only from the 304: the old values would make the response seem older than it is.
  func updated(by notModified: ReceivedResponse) -> ReceivedResponse {
    ReceivedResponse(
      status: status, fields: fields.updated(from: notModified.fields), sent: sent,
      requestedAt: notModified.requestedAt, receivedAt: notModified.receivedAt)
  }
}

extension FieldLines {
  fileprivate func updated(from newer: FieldLines) -> FieldLines {
    var fields = FieldLines()
    fields.reserveCapacity(count + newer.count, bytes: bytes.count + newer.bytes.count)
    let (own, theirs) = (bytes.span, newer.bytes.span)
    for line in lines {
      let isOfOneResponse = own.equalsIgnoringCase(line.name, "age") || own.equalsIgnoringCase(line.name, "date")
      guard Self.describesContent(line.name, in: own) || !isOfOneResponse && !newer.has(nameOf: line, of: self) else {
        continue
      }
      fields.append(line, of: self)
    }
    for line in newer.lines where !Self.describesContent(line.name, in: theirs) {
      fields.append(line, of: newer)
    }
    return fields
  }

  private static func describesContent(_ name: Range<Int>, in bytes: Span<UInt8>) -> Bool {
    switch name.count {
    case 12: bytes.equalsIgnoringCase(name, "content-type")
    case 13: bytes.equalsIgnoringCase(name, "content-range")
    case 14: bytes.equalsIgnoringCase(name, "content-length")
    case 16: bytes.equalsIgnoringCase(name, "content-encoding")
    default: false
    }
  }
}

/// The period in which a response may be used, and how (RFC 9111 §4.2, RFC 5861). All periods are in seconds.
struct Freshness: Equatable {
  let lifetime: Int
  /// Whether the origin stated the lifetime. Otherwise it comes from the settings.
  let isExplicit: Bool
  let staleWhileRevalidate: Int
  let staleIfError: Int
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

  /// Whether a use without validation is possible: the response is fresh for a time, or may be used stale.
  var isOfUseUnvalidated: Bool { !noCache && (lifetime > 0 || staleWhileRevalidate + staleIfError > 0) }

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
/// A malformed directive makes the cache more careful, never less. An invalid delta-seconds value counts as 0, and so
/// does a directive that occurs twice with different values (RFC 9111 §4.2.1). A quoted string without an end counts as
/// `no-store`, because it may contain that directive.
struct ResponseDirectives: Equatable {
  /// `must-understand` overrides this for statuses that the cache understands.
  var noStore = false
  /// Also by `private="X"`, which names fields, as §5.2.2.7 allows.
  var isPrivate = false
  /// Also by `no-cache="X"` (§5.2.2.4).
  var noCache = false
  var mustRevalidate = false
  var proxyRevalidate = false
  var mustUnderstand = false
  var noTransform = false
  var maxAge: Int?
  var sharedMaxAge: Int?
  var staleWhileRevalidate: Int?
  var staleIfError: Int?

  init(_ fields: FieldLines) { fields.forEachValue(of: "cache-control") { add($0) } }

  /// Whether a stale response needs validation before each use. `s-maxage` implies `proxy-revalidate` (§5.2.2.10).
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
  /// When the origin created the response, by its own clock, in seconds since the epoch. Without a valid date, the time of
  /// arrival by our clock (RFC 9110 §6.6.1).
  let date: Int
  /// `corrected_initial_age`.
  let initial: Int

  init(_ response: ReceivedResponse) {
    date = response.date ?? response.receivedAt.wall
    let apparent = max(response.receivedAt.wall - date, 0)
    let delay = response.receivedAt.seconds(since: response.requestedAt)
    initial = min(max(apparent, Self.age(response.fields) + delay), FieldText.mostSeconds)
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
