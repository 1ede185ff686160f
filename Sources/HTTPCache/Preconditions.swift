import Bytes
public import HTTP1

/// The preconditions that a cache evaluates (RFC 9111 §4.3.2, RFC 9110 §13). The cache ignores other preconditions, and
/// the proxy ignores `Range`.
public struct Preconditions: Sendable, Equatable {
  private var tags: [UInt8]?
  private var date: [UInt8]?

  /// Creates an empty set of preconditions.
  public init() {}

  /// Whether the request has no preconditions.
  public var isEmpty: Bool { tags == nil && date == nil }

  /// Adds one line of `If-None-Match`. Several lines form one list.
  public mutating func add(ifNoneMatch value: Span<UInt8>) {
    var list = tags.map { $0 + [UInt8(ascii: ",")] } ?? []
    for index in value.indices { list.append(value[index]) }
    tags = list
  }

  /// Adds the line of `If-Modified-Since`. A second line makes both invalid (RFC 9110 §13.1.3: more than one member).
  public mutating func add(ifModifiedSince value: Span<UInt8>) {
    guard date == nil else {
      date = []
      return
    }
    date = value.indices.map { value[$0] }
  }

  /// Returns whether the caller already has the representation.
  ///
  /// - Parameters:
  ///   - opaque: The text between the quotes of the entity tag. All codings share it, because `If-None-Match` uses weak
  ///     comparison (RFC 9110 §13.1.2).
  ///   - modified: Last-Modified, or otherwise Date, in seconds since the epoch (RFC 9111 §4.3.2).
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
      if isEqual(tag.opaque, of: list, to: opaque) { return true }
    }
    return false
  }

  private static func isEqual(_ range: Range<Int>, of bytes: Span<UInt8>, to other: [UInt8]) -> Bool {
    range.count == other.count && other.indices.allSatisfy { bytes[range.lowerBound + $0] == other[$0] }
  }
}

/// An entity tag (RFC 9110 §8.8.3).
struct EntityTag: Equatable, Sendable {
  /// Whether it begins with `W/`.
  let isWeak: Bool
  /// The text between the quotes.
  let opaque: [UInt8]

  init(isWeak: Bool, opaque: [UInt8]) {
    self.isWeak = isWeak
    self.opaque = opaque
  }

  /// Parses a field value. Returns nil if it is not an entity tag, or if it contains bytes other than ASCII, because
  /// some clients would change them.
  init?(_ value: Span<UInt8>) {
    var scanner = FieldScanner()
    guard let tag = scanner.entityTag(in: value), scanner.isAtEnd(in: value),
      value.indices.allSatisfy({ value[$0] < 0x80 })
    else { return nil }
    var opaque: [UInt8] = []
    opaque.append(copying: value.extracting(tag.opaque))
    self.init(isWeak: tag.isWeak, opaque: opaque)
  }

  /// Parses the only `ETag` of a response. Returns nil without one.
  init?(_ fields: FieldLines) {
    guard case .single(let range) = fields.value(of: "etag") else { return nil }
    self.init(fields.bytes.span.extracting(range))
  }

  /// Creates a strong tag from the content: its hash and its length.
  init(ofContent content: [UInt8]) {
    var opaque: [UInt8] = []
    opaque.append(hexadecimal: ContentHash.of(content))
    opaque.append(UInt8(ascii: "-"))
    opaque.append(decimal: content.count)
    self.init(isWeak: false, opaque: opaque)
  }

  /// The tag for the same content in another coding. The bytes differ, so the tag is weak (RFC 9110 §8.8.3.3).
  var weakened: EntityTag { EntityTag(isWeak: true, opaque: opaque) }

  /// The tag in the syntax of the field.
  var fieldValue: [UInt8] {
    var value: [UInt8] = []
    value.reserveCapacity(opaque.count + 4)
    value.append(isWeak ? "W/\"" : "\"")
    value.append(contentsOf: opaque)
    value.append("\"")
    return value
  }
}

extension FieldScanner {
  /// Consumes an entity tag, or nil. Unlike in a quoted string, a backslash has no special meaning.
  mutating func entityTag(in bytes: Span<UInt8>) -> (isWeak: Bool, opaque: Range<Int>)? {
    var isWeak = false
    if take("W", in: bytes) {
      guard take("/", in: bytes) else { return nil }
      isWeak = true
    }
    guard take("\"", in: bytes) else { return nil }
    let start = index
    while !isAtEnd(in: bytes), bytes[index] > 0x20, bytes[index] != 0x7f, bytes[index] != UInt8(ascii: "\"") {
      advance()
    }
    let opaque = start..<index
    return take("\"", in: bytes) ? (isWeak, opaque) : nil
  }
}

/// A stored response at a moment.
public struct Selection: Sendable {
  /// The response.
  public let response: StoredResponse
  /// The age (`current_age`, RFC 9111 §4.2.3) in seconds.
  public let age: Int
  /// The remaining freshness lifetime in seconds. 0 or less if the response is stale.
  public let timeToLive: Int

  /// Evaluates `response` at `now`.
  public init(_ response: StoredResponse, now: CacheTime) {
    self.response = response
    age = min(response.age.initial + now.seconds(since: response.source.receivedAt), FieldText.mostSeconds)
    timeToLive = response.freshness.lifetime - age
  }

  /// Whether the response may be used without validation (RFC 9111 §4.2), before the caller's directives apply.
  public var isFresh: Bool { timeToLive > 0 && !response.freshness.noCache }

  /// Returns whether the response may be served if the upstream fails (RFC 5861 §4, RFC 9111 §4.2.4). A caller with
  /// `no-cache` does not get it without validation. A caller's own `stale-if-error` overrides the response's limit.
  public func mayServeOnError(_ request: RequestDirectives) -> Bool {
    guard !request.noCache, !response.freshness.noCache else { return false }
    if isFresh { return true }
    return !response.freshness.forbidsStale && -timeToLive < request.staleIfError ?? response.freshness.staleIfError
  }

  /// Returns whether the response may be served while the upstream is slow to validate it. A caller with `max-age` or
  /// `min-fresh` does not get it.
  public func mayServeWhileWaiting(_ request: RequestDirectives) -> Bool {
    request.maxAge == nil && request.minFresh == nil && mayServeOnError(request)
  }

  /// Returns the fields that differ on each send: the origin's Date (RFC 9110 §6.6.1), Age and Cache-Status.
  ///
  /// - Parameter isValidated: Whether the response was validated just now. Otherwise it needs an Age, even 0 (RFC 9111
  ///   §5.1).
  public func fields(_ status: CacheStatus, isValidated: Bool) -> FieldSection {
    var section = FieldSection.empty
    // Date takes 37 bytes, Age 28 at most, and the rest of Cache-Status 16.
    section.reserveRoom(for: 81 + status.mostBytes)
    let date = response.date
    section.append(date: date.span)
    if age > 0 || !isValidated { section.append("Age", upTo: 21) { $0.append(decimal: age) } }
    section.append("Cache-Status", upTo: status.mostBytes) { status.append(to: &$0) }
    return section
  }

  /// Returns how the cache may use this response for a request with these directives.
  package func use(for request: RequestDirectives) -> Lookup {
    let isYoungEnough = request.maxAge.map { age <= $0 } ?? true
    let isWanted = !request.noCache && isYoungEnough
    if isFresh {
      if isWanted, timeToLive >= request.minFresh ?? 0 { return .hit(self) }
      return request.onlyIfCached ? .unsatisfiable : .validate(self, .request)
    }
    if isWanted, request.minFresh == nil, !response.freshness.forbidsStale {
      if let most = request.maxStale, -timeToLive <= most { return .hit(self) }
      // max-age without max-stale requires a fresh response (RFC 9111 §5.2.1.1).
      if request.maxAge == nil, -timeToLive < response.freshness.staleWhileRevalidate {
        return .staleWhileRevalidate(self)
      }
    }
    return request.onlyIfCached ? .unsatisfiable : .validate(self, .stale)
  }
}
