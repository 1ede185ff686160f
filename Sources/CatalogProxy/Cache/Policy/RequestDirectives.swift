/// What `Cache-Control` of a request asks for (RFC 9111 §5.2.1, RFC 5861 §4).
///
/// These are advice, and what cannot be read asks for nothing. Made from the bytes of the head, without allocating.
public struct RequestDirectives: Sendable, Equatable {
  /// Neither this request nor its answer may be stored.
  public private(set) var noStore = false
  /// A stored answer or none at all.
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
      if FieldText.isEqual(directive.name, of: value, to: "no-cache") { pragmaSaysNoCache = true }
    }
  }

  private mutating func apply(_ directive: CacheDirective, in value: Span<UInt8>) {
    func isNamed(_ name: StaticString) -> Bool { FieldText.isEqual(directive.name, of: value, to: name) }
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
