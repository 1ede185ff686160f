import Bytes
public import HTTP1
public import HTTPTypes

/// A whole response, with all its constant parts prepared once. Immutable, and shared by all event loops.
///
/// The cache need not store it: a response only for the current waiters takes the same path.
public final class StoredResponse: Sendable {
  /// The status.
  public let status: HTTPResponse.Status
  /// Whether the cache stores the response, or the reason why not.
  public let verdict: StorageVerdict
  /// Whether all concurrent waiters may have the response (RFC 9111 §4): not with `private`, `no-store`, `Vary: *` or
  /// `Set-Cookie`.
  public let isShareable: Bool

  let source: ReceivedResponse
  let content: StoredContent
  let freshness: Freshness
  let age: ResponseAge
  /// The matching requests. Nil if no other request may have the response.
  let selector: VariantSelector?
  /// The origin's tag, or otherwise our own. Nil if there is neither.
  let tag: EntityTag?
  /// The value of Date: the origin's time of creation.
  let date: InlineArray<29, UInt8>
  private let identity: Representation
  private let gzip: Representation?
  private let settings: CacheSettings

  /// Prepares a response for sending.
  ///
  /// - Parameter body: The whole content as received, with its content coding.
  /// - Throws: `ContentCodingError` if gzipped content cannot be decoded, or exceeds `settings.largestContent`. In the
  ///   latter case the response can still be forwarded unchanged to callers that accept gzip.
  public convenience init(
    _ source: ReceivedResponse, body: [UInt8], settings: CacheSettings
  ) throws(ContentCodingError) {
    let directives = ResponseDirectives(source.fields)
    let content = try StoredContent(body, source.fields, directives: directives, limit: settings.largestContent)
    self.init(source, content: content, directives: directives, settings: settings)
  }

  /// Prepares a response whose content is decoded.
  init(
    _ source: ReceivedResponse, content: StoredContent, directives: ResponseDirectives, settings: CacheSettings
  ) {
    let received = source.fields
    let age = ResponseAge(received, requestedAt: source.requestedAt, receivedAt: source.receivedAt)
    let freshness = Freshness(
      directives, fields: received, status: source.status.code, date: age.date, now: source.receivedAt.wall,
      settings: settings)
    let selector = VariantSelector(received, sent: source.sent)
    let verdict = StorageVerdict(
      source, content: content, directives: directives, freshness: freshness, isSelectable: selector != nil,
      settings: settings)
    let given = EntityTag(received)
    let tag = given ?? (verdict == .store && source.status == .ok ? EntityTag(ofContent: content.identity) : nil)
    isShareable =
      verdict == .store
      || !(directives.isPrivate || directives.noStore || selector == nil || received.has("set-cookie"))
    let fields = StoredFields(
      source: source, content: content, directives: directives, freshness: freshness, selector: selector, tag: tag,
      tagIsOurs: given == nil, isStored: verdict == .store, isShareable: isShareable, settings: settings)
    date = HTTPDate(secondsSinceEpoch: age.date).text
    status = source.status
    identity = fields.representation(.identity, of: content.identity)
    gzip = content.gzip.map { fields.representation(.gzip, of: $0) }
    (self.source, self.content, self.settings, self.verdict) = (source, content, settings, verdict)
    (self.age, self.freshness, self.selector, self.tag) = (age, freshness, selector, tag)
  }

  /// Whether the response shows that an earlier one is no longer right, although the cache does not store it.
  package var replacesStored: Bool { verdict != .store && StorageVerdict.mayStore(status) }

  /// Returns the response in a coding, or in identity if the coding does not exist.
  public func representation(_ coding: ContentCoding) -> Representation {
    coding == .gzip ? gzip ?? identity : identity
  }

  /// Whether the response has no gzip yet and ``ResponseCache/compress(_:for:)`` may create it.
  public var awaitsCompression: Bool { content.awaitsCompression && verdict == .store }

  /// Whether the compression takes more than a millisecond, so that ``ResponseCache/beginCompression(of:for:)`` does it part
  /// by part.
  public var isLong: Bool { content.identity.count > GradualCompression.part }

  /// Returns whether a caller with these preconditions already has this representation, so that a 304 is correct.
  public func isNotModified(_ preconditions: Preconditions, now: CacheTime) -> Bool {
    guard status == .ok, !preconditions.isEmpty else { return false }
    let modified = FieldDate.seconds(ofOnly: "last-modified", in: source.fields, now: now.wall)
    return preconditions.isNotModified(byTag: tag?.opaque, modified: modified ?? age.date, now: now.wall)
  }

  /// The fields that make a request conditional on this response (RFC 9111 §4.3.1). Empty without an origin's
  /// validator, because the origin does not know our own entity tag.
  public var validators: FieldLines {
    var validators = FieldLines()
    let fields = source.fields
    if case .single(let tag) = fields.value(of: "etag"), EntityTag(fields) != nil {
      validators.append("If-None-Match", fields.bytes.span.extracting(tag))
    }
    if case .single(let modified) = fields.value(of: "last-modified") {
      validators.append("If-Modified-Since", fields.bytes.span.extracting(modified))
    }
    return validators
  }

  /// Returns this response renewed by a 304, or nil if the 304 describes another version (RFC 9111 §4.3.4).
  func freshened(by notModified: ReceivedResponse, settings: CacheSettings) -> StoredResponse? {
    if notModified.fields.has("etag") {
      guard source.fields.has("etag"), EntityTag(source.fields)?.opaque == EntityTag(notModified.fields)?.opaque
      else { return nil }
    } else if let theirs = notModified.fields.text(of: "last-modified") {
      guard source.fields.text(of: "last-modified") == theirs else { return nil }
    }
    let updated = source.updated(by: notModified)
    return StoredResponse(updated, content: content, directives: ResponseDirectives(updated.fields), settings: settings)
  }

  /// Returns this response after the attempt to compress it at once.
  func compressed() -> StoredResponse { compressed(to: Gzip.deflate(content.identity)) }

  /// Returns this response after the attempt to compress it.
  ///
  /// - Parameter gzip: The result; nil if it would not be smaller.
  func compressed(to gzip: [UInt8]?) -> StoredResponse {
    StoredResponse(
      source, content: content.compressed(to: gzip), directives: ResponseDirectives(source.fields), settings: settings)
  }

  /// The size in memory, in bytes: contents, fields in all stored forms, and the objects.
  var cost: Int {
    let fields = source.fields.cost + 2 * source.downstream.cost + source.sent.cost
    return content.count + fields + (selector?.cost ?? 0) + Self.overhead
  }

  /// The size of the objects. Measured: the total is about a tenth more than the growth of the process.
  private static let overhead = 1280
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
    let tag = tag.map { isTagged(coding) ? $0 : $0.weakened }
    let vary = vary
    var fields = FieldSection.empty
    fields.reserveRoom(
      for: source.downstream.bytes.count + (vary?.utf8.count ?? 0) + (tag?.opaque.count ?? 0) + Self.roomForOwnFields)
    fields.append(source.downstream) { name, bytes in !Self.isReplaced(name, in: bytes) }
    if let value = content.unknownCoding {
      value.withUTF8Bytes { fields.append("Content-Encoding", $0) }
    } else if coding == .gzip {
      fields.append("Content-Encoding", "gzip")
    }
    let common = fields.count
    fields.append("Cache-Control", upTo: Self.longestCacheControl) { appendCacheControl(to: &$0) }
    fields.append("X-Content-Type-Options", "nosniff")
    fields.append("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
    vary?.withUTF8Bytes { fields.append("Vary", $0) }
    if let tag { fields.append("ETag", upTo: tag.opaque.count + 4) { tag.append(to: &$0) } }
    return Representation(
      body: body, fields: fields.withoutSpareRoom, common: common, downstream: source.downstream, isTagged: tag != nil)
  }

  /// All directives with the longest numbers.
  private static let longestCacheControl = 256
  /// The value of `Cache-Control`, and the names, the ends of lines and the constant values: 183 bytes.
  private static let roomForOwnFields = longestCacheControl + 192

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

  /// Appends `Cache-Control` for downstream caches: the origin's lifetime, and `private` unless `settings.isPublic` and all
  /// callers may have the response.
  private func appendCacheControl(to value: inout OutputSpan<UInt8>) {
    // The cache refused the response, and it states no lifetime: other caches must not store it either.
    guard isStored || freshness.isExplicit || freshness.noCache, !directives.noStore || directives.mustUnderstand else {
      return value.append("no-store")
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

/// The content of a response in all available codings.
struct StoredContent: Sendable {
  /// The decoded content. Unchanged if its coding is unknown.
  let identity: [UInt8]
  private(set) var gzip: [UInt8]?
  /// Whether compression is allowed and useful, and was not tried yet.
  private(set) var awaitsCompression = false
  /// The coding in which the content arrived. The origin's entity tag belongs to it.
  let received: ContentCoding
  /// The value of an unknown Content-Encoding.
  let unknownCoding: String?

  /// The least content worth compressing, in bytes. For less, the fields outweigh the saving.
  private static let leastCompressed = 1024

  /// The names of the gzip coding (RFC 9110 §8.4.1.3).
  private static let gzipNames: [ByteString] = ["gzip", "x-gzip"]

  init(
    _ body: [UInt8], _ fields: FieldLines, directives: ResponseDirectives, limit: Int
  ) throws(ContentCodingError) {
    let coding = fields.text(of: "content-encoding")
    // As bytes: to compare text with combining marks takes a time that is quadratic in their number.
    let name = coding.map { ByteString($0).lowercasedASCII }
    let isGzip = name.map(Self.gzipNames.contains) ?? false
    if isGzip, !body.isEmpty {
      identity = try Gzip.inflate(body, limit: limit).withoutSpareCapacity
      gzip = body.withoutSpareCapacity
      received = .gzip
    } else {
      identity = body.withoutSpareCapacity
      received = .identity
    }
    let isUnknown = name.map { !isGzip && $0 != "" && $0 != "identity" } ?? false
    unknownCoding = isUnknown ? coding : nil
    awaitsCompression = unknownCoding == nil && mayCompress(fields, directives)
  }

  /// Creates the content of a response that another replica has stored. Returns nil if it is not as long as stated.
  ///
  /// - Parameters:
  ///   - isGzip: Whether the bytes are gzipped.
  ///   - length: The number of bytes without a coding, which bounds the work.
  ///   - received: The coding in which the other replica received the content.
  init?(
    _ bytes: [UInt8], isGzip: Bool, length: Int, received: ContentCoding, fields: FieldLines,
    directives: ResponseDirectives
  ) {
    let decoded = isGzip ? try? Gzip.inflate(bytes, limit: length) : bytes
    guard let decoded, decoded.count == length else { return nil }
    identity = decoded.withoutSpareCapacity
    gzip = isGzip ? bytes : nil
    self.received = received
    unknownCoding = nil
    awaitsCompression = mayCompress(fields, directives)
  }

  /// Returns whether compression is allowed and useful. A coding is a transformation (RFC 9110 §7.7). Decoding a coding
  /// that the proxy itself requested is not.
  private func mayCompress(_ fields: FieldLines, _ directives: ResponseDirectives) -> Bool {
    gzip == nil && !directives.noTransform && identity.count >= Self.leastCompressed && Self.isText(fields)
  }

  /// Whether callers can get different codings.
  var isNegotiated: Bool { gzip != nil || awaitsCompression }

  /// Returns the content with the result of its compression; nil if that would not be smaller.
  func compressed(to gzip: [UInt8]?) -> StoredContent {
    guard awaitsCompression else { return self }
    var content = self
    content.gzip = gzip?.withoutSpareCapacity
    content.awaitsCompression = false
    return content
  }

  /// The number of bytes in all codings.
  var count: Int { identity.count + (gzip?.count ?? 0) }

  private static func isText(_ fields: FieldLines) -> Bool {
    let bytes = fields.bytes.span
    guard let line = fields.lines.first(where: { bytes.equalsIgnoringCase($0.name, "content-type") }) else {
      return false
    }
    let (start, end) = (line.value.lowerBound, line.value.upperBound)
    let parameters = line.value.first { bytes[$0] == UInt8(ascii: ";") || bytes[$0] == UInt8(ascii: " ") } ?? end
    return bytes.equalsIgnoringCase(start..<parameters, "application/json")
      || bytes.equalsIgnoringCase(max(parameters - 5, start)..<parameters, "+json")
      || bytes.equalsIgnoringCase(start..<min(start + 5, end), "text/")
  }
}

extension [UInt8] {
  /// The same bytes, copied if the array has much spare capacity. Appending doubles the capacity, but the cache counts
  /// only the bytes.
  fileprivate var withoutSpareCapacity: [UInt8] {
    guard capacity - count > count / 16 + 64 else { return self }
    var exact: [UInt8] = []
    exact.reserveCapacity(count)
    exact.append(contentsOf: self)
    return exact
  }
}

/// A response in one content coding, ready for sending.
public struct Representation: Sendable {
  /// The content.
  public let body: [UInt8]
  /// All constant fields. ``Selection/fields(_:isValidated:)`` returns the other fields.
  public let fields: FieldSection
  /// Where those begin that a 304 has as well.
  let common: Int
  /// The fields of the upstream that the caller gets.
  let downstream: FieldLines
  /// Whether the response has an entity tag. Then a 304 needs no other validator.
  let isTagged: Bool

  /// The fields of a 304 (RFC 9110 §15.4.5).
  public var notModified: FieldSection {
    var section = FieldSection.empty
    section.append(downstream) { name, bytes in
      bytes.equalsIgnoringCase(name, "content-location")
        || !isTagged && bytes.equalsIgnoringCase(name, "last-modified")
    }
    section.append(fields, from: common)
    return section
  }
}
