import Bytes
public import HTTPTypes

/// The conditions of a request that a cache evaluates (RFC 9111 §4.3.2, RFC 9110 §13). The others, and `Range`, which the
/// proxy ignores, are not its business.
public struct Preconditions: Sendable, Equatable {
  private var tags: [UInt8]?
  private var date: [UInt8]?

  /// None.
  public init() {}

  /// Whether the request has no preconditions.
  public var isEmpty: Bool { tags == nil && date == nil }

  /// Takes one line of `If-None-Match`; several are one list.
  public mutating func add(ifNoneMatch value: Span<UInt8>) {
    var list = tags.map { $0 + [UInt8(ascii: ",")] } ?? []
    for index in value.indices { list.append(value[index]) }
    tags = list
  }

  /// Takes the line of `If-Modified-Since`; a second one makes both void (RFC 9110 §13.1.3: more than one member).
  public mutating func add(ifModifiedSince value: Span<UInt8>) {
    guard date == nil else {
      date = []
      return
    }
    date = value.indices.map { value[$0] }
  }

  /// Whether a caller with these conditions already has the representation.
  ///
  /// - Parameters:
  ///   - opaque: What is between the quotes of its entity tag, which all its codings share: for `If-None-Match` the
  ///     comparison is the weak one (RFC 9110 §13.1.2).
  ///   - modified: Last-Modified, or else Date, in seconds since the epoch (RFC 9111 §4.3.2).
  func isNotModified(byTag opaque: [UInt8]?, modified: Int, now: Int) -> Bool {
    if let tags { return Self.isListed(opaque, in: tags.span) }
    guard let date, let since = FieldDate.seconds(String(decoding: date, as: UTF8.self), now: now) else { return false }
    return modified <= since
  }

  /// What is malformed ends the list: 200 is always right.
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
  /// What is between the quotes.
  let opaque: [UInt8]

  init(isWeak: Bool, opaque: [UInt8]) {
    self.isWeak = isWeak
    self.opaque = opaque
  }

  /// Parses a field value; nil if it is not an entity tag, or contains bytes other than ASCII, which some clients would
  /// not send back unchanged.
  init?(_ value: String) {
    let bytes = Array(value.utf8)
    var scanner = FieldScanner()
    guard let tag = scanner.entityTag(in: bytes.span), scanner.isAtEnd(in: bytes.span),
      bytes.allSatisfy({ $0 < 0x80 })
    else { return nil }
    self.init(isWeak: tag.isWeak, opaque: Array(bytes[tag.opaque]))
  }

  /// A strong one made from the content: its hash and its length.
  init(ofContent content: [UInt8]) {
    var opaque: [UInt8] = []
    opaque.append(hexadecimal: ContentHash.of(content))
    opaque.append(UInt8(ascii: "-"))
    opaque.append(decimal: content.count)
    self.init(isWeak: false, opaque: opaque)
  }

  /// The tag for the same content in another coding: no longer the same bytes, so weak (RFC 9110 §8.8.3.3).
  var weakened: EntityTag { EntityTag(isWeak: true, opaque: opaque) }

  /// As the field has it.
  var fieldValue: String {
    (isWeak ? "W/\"" : "\"") + String(decoding: opaque, as: UTF8.self) + "\""
  }
}

extension FieldScanner {
  /// Passes an entity tag; nil if none stands here. Unlike in quoted strings, a backslash is a byte like any other.
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

/// A response at a moment.
public struct Selection: Sendable {
  /// The response.
  public let response: StoredResponse
  /// How old it is (`current_age`, RFC 9111 §4.2.3), in seconds.
  public let age: Int
  /// How long it stays fresh, in seconds; 0 or less if it is stale.
  public let timeToLive: Int

  /// `response` at `now`.
  public init(_ response: StoredResponse, now: CacheTime) {
    self.response = response
    age = min(response.age.initial + now.seconds(since: response.source.receivedAt), FieldText.mostSeconds)
    timeToLive = response.freshness.lifetime - age
  }

  /// Whether it may be used without asking upstream (RFC 9111 §4.2), a caller's wishes aside.
  public var isFresh: Bool { timeToLive > 0 && !response.freshness.noCache }

  /// Whether it may stand in for an upstream that fails (RFC 5861 §4, RFC 9111 §4.2.4). A caller who wants no stored
  /// response without validation does not get one; one who names a bound of his own gets his.
  public func mayServeOnError(_ request: RequestDirectives) -> Bool {
    guard !request.noCache, !response.freshness.noCache else { return false }
    if isFresh { return true }
    return !response.freshness.forbidsStale && -timeToLive < request.staleIfError ?? response.freshness.staleIfError
  }

  /// Whether it may be sent while the upstream is slow to say whether it still holds. Not to a caller who says how fresh
  /// its response has to be.
  public func mayServeWhileWaiting(_ request: RequestDirectives) -> Bool {
    request.maxAge == nil && request.minFresh == nil && mayServeOnError(request)
  }

  /// The fields that change from response to response: Date, which is the origin's (RFC 9110 §6.6.1), Age, Cache-Status.
  public func fields(_ status: CacheStatus) -> HTTPFields {
    var fields = HTTPFields()
    fields.reserveCapacity(3)
    fields.append(response.dateField)
    // Required where the response was not validated just now (RFC 9111 §5.1).
    if age > 0 || status.isHit { fields.append(HTTPField(name: .age, value: String(age))) }
    if let name = CacheStatus.fieldName { fields.append(HTTPField(name: name, value: status.fieldValue)) }
    return fields
  }

  /// How the cache may use this response for a request with these directives.
  func use(for request: RequestDirectives) -> Lookup {
    let isYoungEnough = request.maxAge.map { age <= $0 } ?? true
    let isWanted = !request.noCache && isYoungEnough
    if isFresh {
      if isWanted, timeToLive >= request.minFresh ?? 0 { return .hit(self) }
      return request.onlyIfCached ? .unsatisfiable : .validate(self, .request)
    }
    if isWanted, request.minFresh == nil, !response.freshness.forbidsStale {
      if let most = request.maxStale, -timeToLive <= most { return .hit(self) }
      // max-age without max-stale asks for a fresh response (RFC 9111 §5.2.1.1).
      if request.maxAge == nil, -timeToLive < response.freshness.staleWhileRevalidate {
        return .staleWhileRevalidate(self)
      }
    }
    return request.onlyIfCached ? .unsatisfiable : .validate(self, .stale)
  }
}
