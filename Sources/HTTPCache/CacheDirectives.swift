import Bytes
import HTTP1
import HTTPTypes

/// One element of `Cache-Control` (RFC 9111 §5.2), as ranges of the field value.
struct CacheDirective: Equatable {
  /// The part after `=`.
  enum Argument: Equatable {
    /// There is no `=`.
    case absent
    /// A token, or the text inside a quoted string: recipients must accept both forms for any argument.
    case present(Range<Int>)
    /// Text that the grammar does not allow.
    case malformed
    /// A quoted string without an end. It may contain other elements.
    case unterminated
  }

  /// The name. Empty if the name is missing.
  let name: Range<Int>
  let argument: Argument

  /// Returns the argument in seconds, or nil if it is not delta-seconds.
  func seconds(in bytes: Span<UInt8>) -> Int? {
    guard case .present(let range) = argument else { return nil }
    return FieldText.deltaSeconds(range, of: bytes)
  }
}

extension FieldScanner {
  /// Returns the next element that is not empty, or nil at the end.
  ///
  /// Invalid text makes only its own element malformed. The name of that element still counts, because every directive
  /// of that kind only makes the cache more careful.
  mutating func directive(in bytes: Span<UInt8>) -> CacheDirective? {
    while true {
      skipWhitespace(in: bytes)
      if isAtEnd(in: bytes) { return nil }
      if !take(",", in: bytes) { break }
    }
    let name = token(in: bytes)
    var argument = CacheDirective.Argument.absent
    if take("=", in: bytes) { argument = self.argument(in: bytes) }
    switch skip(past: ",", in: bytes) {
    case .nothing: break
    case .garbage: if argument != .unterminated { argument = .malformed }
    case .unterminatedString: argument = .unterminated
    }
    return CacheDirective(name: name, argument: argument)
  }

  private mutating func argument(in bytes: Span<UInt8>) -> CacheDirective.Argument {
    if !isAtEnd(in: bytes), bytes[index] == UInt8(ascii: "\"") {
      return quotedString(in: bytes).map { .present($0) } ?? .unterminated
    }
    let value = token(in: bytes)
    return value.isEmpty ? .malformed : .present(value)
  }
}

/// The directives of a request's `Cache-Control` (RFC 9111 §5.2.1, RFC 5861 §4).
///
/// Directives are advisory, so malformed ones are ignored. Parsing reads the bytes of the head and allocates nothing.
public struct RequestDirectives: Sendable, Equatable {
  /// Whether the cache may store neither this request nor its response.
  public private(set) var noStore = false
  /// Whether the caller accepts only a stored response.
  public private(set) var onlyIfCached = false
  /// The greatest acceptable age, in seconds.
  public private(set) var maxAge: Int?
  /// The least time for which the response must stay fresh, in seconds.
  public private(set) var minFresh: Int?
  /// The greatest acceptable staleness, in seconds. Without an argument, any staleness is acceptable.
  public private(set) var maxStale: Int?
  /// The greatest acceptable staleness if the upstream fails, in seconds.
  public private(set) var staleIfError: Int?

  private var hasCacheControl = false
  private var controlSaysNoCache = false
  private var pragmaSaysNoCache = false

  /// Creates an empty set of directives.
  public init() {}

  /// Whether a stored response needs validation before use. Without `Cache-Control`, `Pragma` counts (RFC 9111 §5.4).
  public var noCache: Bool { hasCacheControl ? controlSaysNoCache : pragmaSaysNoCache }

  /// Adds one line of `Cache-Control`.
  public mutating func add(cacheControl value: Span<UInt8>) {
    hasCacheControl = true
    var scanner = FieldScanner()
    while let directive = scanner.directive(in: value) {
      apply(directive, in: value)
    }
  }

  /// Adds one line of `Pragma`.
  public mutating func add(pragma value: Span<UInt8>) {
    var scanner = FieldScanner()
    while let directive = scanner.directive(in: value) {
      if value.equalsIgnoringCase(directive.name, "no-cache") { pragmaSaysNoCache = true }
    }
  }

  private mutating func apply(_ directive: CacheDirective, in value: Span<UInt8>) {
    func isNamed(_ name: StaticString) -> Bool { value.equalsIgnoringCase(directive.name, name) }
    let seconds = directive.seconds(in: value)
    // Of two different values the first counts. This matches the rule for a duplicate field in a response.
    switch directive.name.count {
    case 7 where isNamed("max-age"): maxAge = maxAge ?? seconds
    case 8 where isNamed("no-store"): noStore = true
    case 8 where isNamed("no-cache"): controlSaysNoCache = true
    case 9 where isNamed("min-fresh"): minFresh = minFresh ?? seconds
    case 9 where isNamed("max-stale"):
      maxStale = maxStale ?? (directive.argument == .absent ? FieldText.mostSeconds : seconds)
    case 14 where isNamed("only-if-cached"): onlyIfCached = true
    case 14 where isNamed("stale-if-error"): staleIfError = staleIfError ?? seconds
    default: break
    }
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
