import Bytes
public import HTTP1
public import HTTPTypes

/// A whole upstream response to a `GET`. Immutable, and an object, because what is derived from it keeps it.
public final class ReceivedResponse: Sendable {
  /// The status.
  public let status: HTTPResponse.Status
  /// All end-to-end fields.
  public let fields: FieldLines
  /// The fields that the header policy forwards to callers. The cache replaces Age, Cache-Control, Content-Encoding,
  /// Date, ETag, Expires and Vary with its own.
  public let downstream: FieldLines
  /// The whole content as received, with its content coding.
  public let body: [UInt8]
  /// The fields of the upstream request, by which `Vary` selects. The credential is removed, because it must not be
  /// stored.
  public let sent: FieldLines
  /// When the request was sent.
  public let requestedAt: CacheTime
  /// When the head of the response arrived.
  public let receivedAt: CacheTime

  /// Creates a response and removes the credential from `sent`.
  public init(
    status: HTTPResponse.Status, fields: FieldLines, downstream: FieldLines, body: [UInt8], sent: FieldLines = [:],
    requestedAt: CacheTime, receivedAt: CacheTime
  ) {
    (self.status, self.fields, self.downstream, self.body) = (status, fields, downstream, body)
    (self.requestedAt, self.receivedAt) = (requestedAt, receivedAt)
    // A copy without it: a removed line would stay in the bytes.
    self.sent =
      sent.has("authorization")
      ? sent.filter { name, bytes in !bytes.equalsIgnoringCase(name, "authorization") } : sent
  }

  /// Returns the response without its content.
  ///
  /// - Parameter isStored: Whether it keeps only the fields that are needed to evaluate it again when a 304 renews it.
  func metadata(isStored: Bool) -> ReceivedResponse {
    ReceivedResponse(
      status: status, fields: isStored ? judgedFields : fields, downstream: downstream, body: [],
      sent: sent, requestedAt: requestedAt, receivedAt: receivedAt)
  }

  private var judgedFields: FieldLines {
    let fields = fields
    let bytes = fields.bytes.span
    for line in fields.lines where !Self.isJudged(line.name, in: bytes) { return fields.filter(Self.isJudged) }
    // It has no others: a 304 has renewed it, or another replica has stored it.
    return fields
  }

  /// Returns whether the field decides whether, how long and for which callers a response is stored.
  private static func isJudged(_ name: Range<Int>, in bytes: Span<UInt8>) -> Bool {
    func isNamed(_ other: StaticString) -> Bool { bytes.equalsIgnoringCase(name, other) }
    return switch name.count {
    case 3: isNamed("age")
    case 4: isNamed("date") || isNamed("etag") || isNamed("vary")
    case 7: isNamed("expires")
    case 10: isNamed("set-cookie")
    case 12: isNamed("content-type")
    case 13: isNamed("cache-control") || isNamed("content-range") || isNamed("last-modified")
    case 16: isNamed("content-encoding")
    default: false
    }
  }

  /// Returns this response with the metadata of a 304 that confirms it (RFC 9111 §3.2).
  ///
  /// The fields that describe the content stay, because the 304 has no content. Age and Date come only from the 304:
  /// the old values would make the response seem older than it is.
  func updated(by notModified: ReceivedResponse) -> ReceivedResponse {
    ReceivedResponse(
      status: status, fields: fields.updated(from: notModified.fields, where: Self.isJudged),
      downstream: downstream.updated(from: notModified.downstream) { _, _ in true }, body: body, sent: sent,
      requestedAt: notModified.requestedAt, receivedAt: notModified.receivedAt)
  }
}

extension FieldLines {
  /// Returns these lines with those of a 304 that `isWanted`.
  fileprivate func updated(
    from newer: FieldLines, where isWanted: (_ name: Range<Int>, _ bytes: Span<UInt8>) -> Bool
  ) -> FieldLines {
    var fields = FieldLines()
    fields.reserveCapacity(count + newer.count, bytes: bytes.count + newer.bytes.count)
    let (own, theirs) = (bytes.span, newer.bytes.span)
    for line in lines {
      let isOfContent = Self.describesContent(line.name, in: own)
      guard isOfContent || !Self.isOfOneResponse(line.name, in: own) && !newer.has(nameOf: line, of: self) else {
        continue
      }
      fields.append(line, of: self)
    }
    for line in newer.lines where isWanted(line.name, theirs) && !Self.describesContent(line.name, in: theirs) {
      fields.append(line, of: newer)
    }
    return fields
  }

  private static func isOfOneResponse(_ name: Range<Int>, in bytes: Span<UInt8>) -> Bool {
    bytes.equalsIgnoringCase(name, "age") || bytes.equalsIgnoringCase(name, "date")
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

/// A builder of the fields of a stored response that are the same for every caller.
struct StoredFields {
  let source: ReceivedResponse
  let content: StoredContent
  let directives: ResponseDirectives
  let freshness: Freshness
  let selector: VariantSelector?
  let tag: EntityTag?
  let tagIsOurs: Bool
  let isStored: Bool
  let isShareable: Bool
  let settings: CacheSettings

  /// Returns the content in a coding, with its fields.
  func representation(_ coding: ContentCoding, of body: [UInt8]) -> Representation {
    let (cacheControl, vary) = (cacheControl, vary)
    let tag = tag.map { (isTagged(coding) ? $0 : $0.weakened).fieldValue }
    var common = FieldSection.empty
    // The names, the ends of lines and the constant values take 135 bytes.
    common.reserveRoom(for: 135 + cacheControl.count + (vary?.utf8.count ?? 0) + (tag?.count ?? 0))
    common.append("Cache-Control", cacheControl.span)
    common.append("X-Content-Type-Options", "nosniff")
    common.append("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
    vary?.withUTF8Bytes { common.append("Vary", $0) }
    if let tag { common.append("ETag", tag.span) }
    var fields = FieldSection.empty
    fields.reserveRoom(for: source.downstream, and: common)
    fields.append(source.downstream) { name, bytes in !Self.isReplaced(name, in: bytes) }
    if let value = content.unknownCoding {
      value.withUTF8Bytes { fields.append("Content-Encoding", $0) }
    } else if coding == .gzip {
      fields.append("Content-Encoding", "gzip")
    }
    fields.append(common)
    return Representation(
      body: body, fields: fields, common: common, downstream: source.downstream, isTagged: tag != nil)
  }

  /// Returns whether this type, or ``Selection`` on each send, writes the field itself.
  private static func isReplaced(_ name: Range<Int>, in bytes: Span<UInt8>) -> Bool {
    func isNamed(_ other: StaticString) -> Bool { bytes.equalsIgnoringCase(name, other) }
    return switch name.count {
    case 3: isNamed("age")
    case 4: isNamed("date") || isNamed("etag") || isNamed("vary")
    case 7: isNamed("expires")
    case 13: isNamed("cache-control")
    case 14: isNamed("content-length")
    case 16: isNamed("content-encoding")
    default: false
    }
  }

  /// Returns whether the unchanged tag belongs to this coding: the coding that the origin sent, or identity for our own
  /// tag. The other coding has different bytes and must have a different tag (RFC 9110 §8.8.3.3).
  private func isTagged(_ coding: ContentCoding) -> Bool {
    coding == (tagIsOurs ? .identity : content.received)
  }

  /// `Cache-Control` for downstream caches: the origin's lifetime, and `private` unless `settings.isPublic` and all
  /// callers may have the response.
  private var cacheControl: [UInt8] {
    var value: [UInt8] = []
    value.reserveCapacity(64)
    // The cache refused the response, and it states no lifetime: other caches must not store it either.
    guard isStored || freshness.isExplicit || freshness.noCache, !directives.noStore || directives.mustUnderstand else {
      value.append("no-store")
      return value
    }
    let isPublic = settings.isPublic && isShareable
    value.append(isPublic ? "public" : "private")
    if freshness.noCache { value.append(", no-cache") }
    value.append(", max-age=", privateLifetime)
    if isPublic, let shared = directives.sharedMaxAge { value.append(", s-maxage=", shared) }
    if directives.mustRevalidate { value.append(", must-revalidate") }
    if isPublic, directives.proxyRevalidate { value.append(", proxy-revalidate") }
    if directives.noTransform { value.append(", no-transform") }
    if let seconds = directives.staleWhileRevalidate { value.append(", stale-while-revalidate=", seconds) }
    if let seconds = directives.staleIfError { value.append(", stale-if-error=", seconds) }
    return value
  }

  /// The lifetime without `s-maxage`, which does not apply to a browser.
  private var privateLifetime: Int {
    if let maxAge = directives.maxAge { return maxAge }
    guard directives.sharedMaxAge != nil else { return freshness.lifetime }
    let now = source.receivedAt
    let date = ResponseAge(source.fields, requestedAt: source.requestedAt, receivedAt: now).date
    return Freshness.lifetime(untilExpiry: source.fields, date: date, now: now.wall) ?? settings.lifetime
  }

  private var vary: String? {
    guard let selector else { return "*" }
    // CORS access depends on Origin, even if all callers may have the response.
    var value = content.isNegotiated ? "Accept-Encoding, Origin" : "Origin"
    for name in selector.names where name != .origin && !(content.isNegotiated && name == .acceptEncoding) {
      value += ", \(name.rawName)"
    }
    return value
  }
}
