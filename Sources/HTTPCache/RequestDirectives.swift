import Bytes
import HTTP1

/// The directives of a request's `Cache-Control` (RFC 9111 §5.2.1, RFC 5861 §4). They are advisory, so malformed ones are
/// ignored. Parsing allocates nothing.
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
    while let directive = scanner.directive(in: value) { apply(directive, in: value) }
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

/// The preconditions that a cache evaluates (RFC 9111 §4.3.2, RFC 9110 §13). The cache ignores other preconditions, and
/// the proxy ignores `Range`.
public struct Preconditions: Sendable, Equatable {
  private var tags: [UInt8]?
  private var date: [UInt8]?

  /// Creates an empty set of preconditions.
  public init() {}

  /// Whether there are none.
  public var isEmpty: Bool { tags == nil && date == nil }

  /// Adds one line of `If-None-Match`. Several lines form one list.
  public mutating func add(ifNoneMatch value: Span<UInt8>) {
    if tags == nil { tags = [] } else { tags?.append(UInt8(ascii: ",")) }
    tags?.append(copying: value)
  }

  /// Adds the line of `If-Modified-Since`. A second line makes both invalid (RFC 9110 §13.1.3: more than one member).
  public mutating func add(ifModifiedSince value: Span<UInt8>) {
    date = date == nil ? value.indices.map { value[$0] } : []
  }

  /// Returns whether the caller already has the representation. All codings share `opaque`, the text between the quotes of
  /// its entity tag, because `If-None-Match` uses weak comparison (RFC 9110 §13.1.2); `modified` is Last-Modified, or
  /// otherwise Date (RFC 9111 §4.3.2).
  func isNotModified(byTag opaque: [UInt8]?, modified: Int, now: Int) -> Bool {
    if let tags { return Self.isListed(opaque, in: tags.span) }
    guard let date, let since = FieldDate.seconds(date.span, now: now) else { return false }
    return modified <= since
  }

  /// Returns whether the list contains the tag. A malformed element ends the list, because a 200 is always correct.
  private static func isListed(_ opaque: [UInt8]?, in list: Span<UInt8>) -> Bool {
    var scanner = FieldScanner()
    scanner.skipWhitespace(in: list)
    if scanner.take("*", in: list) {
      scanner.skipWhitespace(in: list)
      return scanner.isAtEnd(in: list)
    }
    guard let opaque else { return false }
    while !scanner.isAtEnd(in: list) {
      scanner.skipWhitespace(in: list)
      if scanner.take(",", in: list) { continue }
      if scanner.isAtEnd(in: list) { break }
      guard let tag = scanner.entityTag(in: list) else { return false }
      scanner.skipWhitespace(in: list)
      guard scanner.isAtEnd(in: list) || scanner.take(",", in: list) else { return false }
      let listed = list.extracting(tag.opaque)
      if listed.count == opaque.count, opaque.indices.allSatisfy({ listed[$0] == opaque[$0] }) { return true }
    }
    return false
  }
}

/// An entity tag (RFC 9110 §8.8.3).
struct EntityTag: Equatable, Sendable {
  let isWeak: Bool
  /// The text between the quotes.
  let opaque: [UInt8]

  /// The tag for the same content in another coding. The bytes differ, so the tag is weak (RFC 9110 §8.8.3.3).
  var weakened: EntityTag { EntityTag(isWeak: true, opaque: opaque) }

  /// Appends the tag in the syntax of the field: four bytes more than its text at most.
  func append(to value: inout OutputSpan<UInt8>) {
    value.append(isWeak ? "W/\"" : "\"")
    value.append(copying: opaque.span)
    value.append("\"")
  }
}

extension EntityTag {
  /// Parses a field value. Returns nil if it is no entity tag, or not ASCII, because some clients would change it.
  init?(_ value: Span<UInt8>) {
    var scanner = FieldScanner()
    guard let tag = scanner.entityTag(in: value), scanner.isAtEnd(in: value),
      value.indices.allSatisfy({ value[$0] < 0x80 })
    else { return nil }
    var opaque: [UInt8] = []
    opaque.append(copying: value.extracting(tag.opaque))
    self.init(isWeak: tag.isWeak, opaque: opaque)
  }

  init?(_ fields: FieldLines) {
    guard case .single(let range) = fields.value(of: "etag") else { return nil }
    self.init(fields.bytes.span.extracting(range))
  }

  /// Creates a strong tag from the content: its hash and its length.
  init(ofContent content: [UInt8]) {
    var opaque: [UInt8] = []
    opaque.append(addingCapacity: 37) { (tag: inout OutputSpan<UInt8>) in
      tag.append(hexadecimal: ContentHash.of(content))
      tag.append(UInt8(ascii: "-"))
      tag.append(decimal: content.count)
    }
    self.init(isWeak: false, opaque: opaque)
  }
}

/// XXH64 (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md) with the seed 0: a hash of content that is the same in
/// every process and replica. It distinguishes versions of one URL. Apple writes them, so no adversary can choose them, and
/// no cryptographic hash is needed.
enum ContentHash {
  static func of(_ bytes: [UInt8]) -> UInt64 {
    // Safe: all bytes of an array are initialised.
    var rest = unsafe bytes.span.bytes
    var hash = prime5
    if rest.byteCount >= 32 { hash = lanes(&rest) }
    hash &+= UInt64(bytes.count)
    while rest.byteCount >= 8 { hash = rotated(hash ^ round(0, take(&rest)), 27) &* prime1 &+ prime4 }
    if rest.byteCount >= 4 {
      let word: UInt32 = take(&rest)
      hash = rotated(hash ^ UInt64(word) &* prime1, 23) &* prime2 &+ prime3
    }
    while !rest.isEmpty {
      let byte: UInt8 = take(&rest)
      hash = rotated(hash ^ UInt64(byte) &* prime5, 11) &* prime1
    }
    hash = (hash ^ hash >> 33) &* prime2
    hash = (hash ^ hash >> 29) &* prime3
    return hash ^ hash >> 32
  }

  /// Takes all whole groups of 32 bytes, each of whose four words goes to a lane of its own, and returns the lanes' sum.
  private static func lanes(_ rest: inout RawSpan) -> UInt64 {
    var (a, b, c, d) = (prime1 &+ prime2, prime2, UInt64(0), 0 &- prime1)
    while rest.byteCount >= 32 {
      // One check of the bounds for four words.
      var group = rest.extracting(..<32)
      a = round(a, take(&group))
      b = round(b, take(&group))
      c = round(c, take(&group))
      d = round(d, take(&group))
      rest = rest.extracting(32...)
    }
    var sum = rotated(a, 1) &+ rotated(b, 7) &+ rotated(c, 12) &+ rotated(d, 18)
    for lane in [a, b, c, d] { sum = (sum ^ round(0, lane)) &* prime1 &+ prime4 }
    return sum
  }

  @inline(__always)
  private static func round(_ lane: UInt64, _ word: UInt64) -> UInt64 { rotated(lane &+ word &* prime2, 31) &* prime1 }

  @inline(__always)
  private static func rotated(_ word: UInt64, _ count: UInt64) -> UInt64 { word << count | word >> (64 - count) }

  @inline(__always)
  private static func take<Number: FixedWidthInteger & BitwiseCopyable>(_ rest: inout RawSpan) -> Number {
    // Safe: every bit pattern is a number, and RawSpan checks the bounds.
    let number = unsafe rest.unsafeLoadUnaligned(as: Number.self)
    rest = rest.extracting(MemoryLayout<Number>.size...)
    return Number(littleEndian: number)
  }

  private static let prime1: UInt64 = 0x9e37_79b1_85eb_ca87
  private static let prime2: UInt64 = 0xc2b2_ae3d_27d4_eb4f
  private static let prime3: UInt64 = 0x1656_67b1_9e37_79f9
  private static let prime4: UInt64 = 0x85eb_ca77_c2b2_ae63
  private static let prime5: UInt64 = 0x27d4_eb2f_1656_67c5
}
