import HTTPTypes

/// What `Cache-Control` of a response asks for (RFC 9111 §5.2.2, RFC 5861).
///
/// An unreadable directive makes the cache more careful, never less. An invalid length of time, or one that occurs
/// twice with different values, counts as 0 (RFC 9111 §4.2.1). A quoted string without an end counts as `no-store`,
/// because it may have swallowed that directive.
struct ResponseDirectives: Equatable {
  /// Must not be stored, or not by us who do not understand it.
  var noStore = false
  /// The response is for one user. The same holds if it names fields (`private="X"`), as §5.2.2.7 allows and most
  /// caches do.
  var isPrivate = false
  /// May not be used without validation; the same goes for `no-cache="X"` (§5.2.2.4).
  var noCache = false
  var mustRevalidate = false
  var proxyRevalidate = false
  var mustUnderstand = false
  var noTransform = false
  var maxAge: Int?
  var sharedMaxAge: Int?
  var staleWhileRevalidate: Int?
  var staleIfError: Int?

  init(_ fields: HTTPFields) {
    for value in fields[values: .cacheControl] {
      add(Array(value.utf8).span)
    }
  }

  /// Whether a stale answer must not be used without successful validation, whatever else is said: `s-maxage` has the
  /// meaning of `proxy-revalidate` too (§5.2.2.10).
  var forbidsStale: Bool { noCache || mustRevalidate || proxyRevalidate || sharedMaxAge != nil }

  private mutating func add(_ value: Span<UInt8>) {
    var scanner = FieldScanner()
    while let directive = scanner.directive(in: value) {
      apply(directive, in: value)
      if directive.argument == .unterminated { noStore = true }
    }
  }

  private mutating func apply(_ directive: CacheDirective, in value: Span<UInt8>) {
    func isNamed(_ name: StaticString) -> Bool { FieldText.isEqual(directive.name, of: value, to: name) }
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
