import Bytes
import HTTPTypes

/// One element of `Cache-Control` (RFC 9111 §5.2), as ranges of the value it stands in.
struct CacheDirective: Equatable {
  /// What stands behind `=`.
  enum Argument: Equatable {
    /// There is no `=`.
    case absent
    /// A token, or what is between the quotes of a quoted string: recipients are to take both for any argument.
    case present(Range<Int>)
    /// Something that the grammar has no place for.
    case malformed
    /// A quoted string that does not end, so that it may have swallowed other elements.
    case unterminated
  }

  /// Its name; empty where there is no name.
  let name: Range<Int>
  /// Its argument.
  let argument: Argument

  /// Its argument as a length of time; nil if the argument is not a length of time.
  func seconds(in bytes: Span<UInt8>) -> Int? {
    guard case .present(let range) = argument else { return nil }
    return FieldText.deltaSeconds(range, of: bytes)
  }
}

extension FieldScanner {
  /// The next element that is not empty; nil at the end.
  ///
  /// Garbage costs no more than the element that it stands in. Of such a one the name still counts, since that only makes
  /// the cache more careful.
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

/// What `Cache-Control` of a request asks for (RFC 9111 §5.2.1, RFC 5861 §4).
///
/// These are advice, and what cannot be read asks for nothing. Made from the bytes of the head, without allocating.
public struct RequestDirectives: Sendable, Equatable {
  /// Neither this request nor its response may be stored.
  public private(set) var noStore = false
  /// A stored response or none at all.
  public private(set) var onlyIfCached = false
  /// The greatest age that will do, in seconds.
  public private(set) var maxAge: Int?
  /// How long it has to stay fresh, in seconds.
  public private(set) var minFresh: Int?
  /// How stale it may be, in seconds; without an argument as stale as it likes.
  public private(set) var maxStale: Int?
  /// How stale it may be when the upstream fails, in seconds.
  public private(set) var staleIfError: Int?

  private var hasCacheControl = false
  private var controlSaysNoCache = false
  private var pragmaSaysNoCache = false

  /// Asks for nothing.
  public init() {}

  /// Nothing stored without asking upstream first. `Pragma` counts where there is no `Cache-Control` (RFC 9111 §5.4).
  public var noCache: Bool { hasCacheControl ? controlSaysNoCache : pragmaSaysNoCache }

  /// Takes one line of `Cache-Control`.
  public mutating func add(cacheControl value: Span<UInt8>) {
    hasCacheControl = true
    var scanner = FieldScanner()
    while let directive = scanner.directive(in: value) {
      apply(directive, in: value)
    }
  }

  /// Takes one line of `Pragma`.
  public mutating func add(pragma value: Span<UInt8>) {
    var scanner = FieldScanner()
    while let directive = scanner.directive(in: value) {
      if value.equalsIgnoringCase(directive.name, "no-cache") { pragmaSaysNoCache = true }
    }
  }

  private mutating func apply(_ directive: CacheDirective, in value: Span<UInt8>) {
    func isNamed(_ name: StaticString) -> Bool { value.equalsIgnoringCase(directive.name, name) }
    let seconds = directive.seconds(in: value)
    // Of two that differ the first one counts, as it does where there is one field too many in a response.
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

  /// Whether a stale response must not be used without successful validation, whatever else is said: `s-maxage` has the
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
