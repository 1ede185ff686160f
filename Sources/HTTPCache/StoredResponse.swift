import Bytes
public import HTTP1
public import HTTPTypes

/// A whole response, with all its constant parts prepared once. Immutable, and shared by all event loops. The cache need
/// not store it: a response only for the current waiters takes the same path.
public final class StoredResponse: Sendable {
  let judged: JudgedResponse
  /// The value of Date: the origin's time of creation.
  let date: InlineArray<29, UInt8>
  private let identity: Representation
  private let gzip: Representation?

  /// Prepares a response with its whole content as received. Throws if gzipped content cannot be decoded, or exceeds
  /// `settings.largestContent`: then the response can still be forwarded unchanged to callers that accept gzip.
  public convenience init(
    _ source: ReceivedResponse, body: [UInt8], settings: CacheSettings
  ) throws(ContentCodingError) {
    let content = try StoredContent(body, source.fields, limit: settings.largestContent)
    self.init(source, content: content, settings: settings)
  }

  init(_ source: ReceivedResponse, content: StoredContent, settings: CacheSettings) {
    judged = JudgedResponse(source, content: content, settings: settings)
    date = HTTPDate(secondsSinceEpoch: judged.age.date).text
    identity = judged.representation(.identity, of: content.identity)
    gzip = if let body = content.gzip { judged.representation(.gzip, of: body) } else { nil }
  }

  /// The status.
  public var status: HTTPResponse.Status { judged.source.status }
  /// Whether the cache stores the response.
  public var isStorable: Bool { judged.isStorable }
  /// Whether all concurrent waiters may have the response (RFC 9111 §4): not with `private`, `no-store`, `Vary: *` or
  /// `Set-Cookie`.
  public var isShareable: Bool { judged.isShareable }
  /// Whether the response shows that an earlier one is no longer right, although the cache does not store it.
  package var replacesStored: Bool { !isStorable && JudgedResponse.mayStore(status) }

  /// Returns the response in a coding, or in identity if the coding does not exist.
  public func representation(_ coding: ContentCoding) -> Representation {
    coding == .gzip ? gzip ?? identity : identity
  }

  /// Whether the response has no gzip yet and ``ResponseCache/compress(_:for:)`` may create it.
  public var awaitsCompression: Bool { judged.awaitsCompression && isStorable }
  /// Whether the compression takes more than a millisecond, and so happens part by part.
  public var isLong: Bool { judged.content.identity.count > GradualCompression.part }

  /// Returns whether a caller with these preconditions already has this representation, so that a 304 is correct.
  public func isNotModified(_ preconditions: Preconditions, now: CacheTime) -> Bool {
    guard !preconditions.isEmpty, status == .ok else { return false }
    let modified = FieldDate.seconds(ofOnly: "last-modified", in: judged.source.fields, now: now.wall)
    return preconditions.isNotModified(byTag: judged.tag?.opaque, modified: modified ?? judged.age.date, now: now.wall)
  }

  /// The fields that make a request conditional on this response (RFC 9111 §4.3.1). Empty without an origin's
  /// validator, because the origin does not know our own entity tag.
  public var validators: FieldLines {
    var validators = FieldLines()
    let fields = judged.source.fields
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
    let (own, theirs) = (judged.source.fields, notModified.fields)
    if theirs.has("etag") {
      guard own.has("etag"), EntityTag(own)?.opaque == EntityTag(theirs)?.opaque else { return nil }
    } else if let modified = theirs.text(of: "last-modified") {
      guard own.text(of: "last-modified") == modified else { return nil }
    }
    return StoredResponse(judged.source.updated(by: notModified), content: judged.content, settings: settings)
  }

  /// Returns this response with the result of its compression; nil if that would not be smaller.
  func compressed(to gzip: [UInt8]?) -> StoredResponse {
    StoredResponse(judged.source, content: judged.content.compressed(to: gzip), settings: judged.settings)
  }

  /// The size in memory, in bytes: contents, fields in all stored forms, and the objects.
  var cost: Int {
    let fields = 2 * judged.source.fields.cost + judged.source.sent.cost
    return judged.content.count + fields + (judged.selector?.cost ?? 0) + Self.overhead
  }

  /// The size of the objects. Measured: the total is about a tenth more than the growth of the process.
  private static let overhead = 1280
}

/// A response with what its fields say about its use, for which the cache shares it between all callers (RFC 9111 §3). The
/// rule about `Authorization` (§3.5) does not bind this cache: docs/decisions.md, 28.
struct JudgedResponse: Sendable {
  let source: ReceivedResponse
  let content: StoredContent
  let settings: CacheSettings
  let age: ResponseAge
  let freshness: Freshness
  /// The matching requests. Nil if no other request may have the response.
  let selector: VariantSelector?
  /// The origin's tag, or otherwise our own. Nil if there is neither.
  let tag: EntityTag?
  let isStorable: Bool
  let isShareable: Bool
  /// Whether compression is allowed and useful, and was not tried yet.
  let awaitsCompression: Bool
  private let directives: ResponseDirectives
  private let tagIsOurs: Bool

  init(_ source: ReceivedResponse, content: StoredContent, settings: CacheSettings) {
    let fields = source.fields
    directives = ResponseDirectives(fields)
    (self.source, self.content, self.settings) = (source, content, settings)
    age = ResponseAge(source)
    freshness = Freshness(
      directives, fields: fields, status: source.status.code, date: age.date, now: source.receivedAt.wall,
      settings: settings)
    selector = VariantSelector(fields, sent: source.sent)
    let isForAll = selector != nil && !directives.isPrivate && !fields.has("set-cookie")
    // The cache understands all statuses that it stores, so must-understand overrides no-store (RFC 9111 §5.2.2.3).
    let forbidsStorage = directives.noStore && !directives.mustUnderstand
    let isOfUse = freshness.isOfUseUnvalidated || fields.has("etag") || fields.has("last-modified")
    // A response with Content-Range has only a part of a representation (RFC 9110 §14.4).
    isStorable =
      Self.mayStore(source.status) && !fields.has("content-range") && content.unknownCoding == nil
      && content.identity.count <= settings.largestStored && !forbidsStorage && isForAll && isOfUse
    isShareable = isStorable || isForAll && !directives.noStore
    let given = EntityTag(fields)
    tagIsOurs = given == nil
    tag = given ?? (isStorable && source.status == .ok ? EntityTag(ofContent: content.identity) : nil)
    // A coding is a transformation (RFC 9110 §7.7). Decoding a coding that the proxy itself requested is not.
    awaitsCompression = !directives.noTransform && content.isCompressible(fields)
  }

  /// Returns whether the status may be stored: it is heuristically cacheable (RFC 9110 §15.1), used by Apple, and lasting.
  static func mayStore(_ status: HTTPResponse.Status) -> Bool {
    switch status.code {
    case 200, 301, 308, 404, 410: true
    default: false
    }
  }
}

/// The fields that are the same for every caller.
extension JudgedResponse {
  func representation(_ coding: ContentCoding, of body: [UInt8]) -> Representation {
    let tag = tag.map { isTagged(coding) ? $0 : $0.weakened }
    let vary = vary
    var fields = FieldSection.empty
    fields.reserveRoom(
      for: source.fields.bytes.count + (vary?.utf8.count ?? 0) + (tag?.opaque.count ?? 0) + Self.roomForOwnFields)
    fields.append(source.fields) { name, bytes in !Self.isReplaced(name, in: bytes) }
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
      body: body, fields: fields.withoutSpareRoom, common: common, received: source.fields, isTagged: tag != nil)
  }

  /// All directives with the longest numbers.
  private static let longestCacheControl = 256
  /// The value of `Cache-Control`, and the names, the ends of lines and the constant values: 183 bytes.
  private static let roomForOwnFields = longestCacheControl + 192

  /// Returns whether callers do not get the field as it was received.
  private static func isReplaced(_ name: Range<Int>, in bytes: Span<UInt8>) -> Bool {
    bytes.equalsIgnoringCase(name, "etag") || bytes.equalsIgnoringCase(name, "content-encoding")
      || ReceivedResponse.isForCacheOnly(name, in: bytes)
  }

  /// Returns whether the unchanged tag belongs to this coding: the one that the origin sent, or identity for our own tag.
  /// The other coding has different bytes and must have a different tag (RFC 9110 §8.8.3.3).
  private func isTagged(_ coding: ContentCoding) -> Bool { coding == (tagIsOurs ? .identity : content.received) }

  /// Appends `Cache-Control` for downstream caches: the origin's lifetime, and `private` unless `settings.isPublic` and all
  /// callers may have the response.
  private func appendCacheControl(to value: inout OutputSpan<UInt8>) {
    // The cache refused the response, and it states no lifetime: other caches must not store it either.
    guard isStorable || freshness.isExplicit || freshness.noCache, !directives.noStore || directives.mustUnderstand
    else { return value.append("no-store") }
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
    let now = source.receivedAt.wall
    return Freshness.lifetime(untilExpiry: source.fields, date: age.date, now: now) ?? settings.lifetime
  }

  private var vary: String? {
    guard let selector else { return "*" }
    // CORS access depends on Origin, even if all callers may have the response.
    let isNegotiated = content.gzip != nil || awaitsCompression
    var value = isNegotiated ? "Accept-Encoding, Origin" : "Origin"
    for name in selector.names where name != .origin && !(isNegotiated && name == .acceptEncoding) {
      value += ", \(name.rawName)"
    }
    return value
  }
}

struct StoredContent: Sendable {
  /// The decoded content. Unchanged if its coding is unknown.
  let identity: [UInt8]
  private(set) var gzip: [UInt8]?
  private var wasCompressed = false
  /// The coding in which the content arrived. The origin's entity tag belongs to it.
  let received: ContentCoding
  /// The value of an unknown Content-Encoding.
  let unknownCoding: String?

  /// The least content worth compressing, in bytes. For less, the fields outweigh the saving.
  private static let leastCompressed = 1024
  /// The names of the gzip coding (RFC 9110 §8.4.1.3).
  private static let gzipNames: [ByteString] = ["gzip", "x-gzip"]

  init(_ body: [UInt8], _ fields: FieldLines, limit: Int) throws(ContentCodingError) {
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
  }

  /// Creates the content of a response that another replica has received and stored. Returns nil if its length without a
  /// coding, which bounds the work, is not the stated one.
  init?(_ bytes: [UInt8], isGzip: Bool, length: Int, received: ContentCoding) {
    let decoded = isGzip ? try? Gzip.inflate(bytes, limit: length) : bytes
    guard let decoded, decoded.count == length else { return nil }
    identity = decoded.withoutSpareCapacity
    gzip = isGzip ? bytes : nil
    self.received = received
    unknownCoding = nil
  }

  func isCompressible(_ fields: FieldLines) -> Bool {
    gzip == nil && !wasCompressed && unknownCoding == nil && identity.count >= Self.leastCompressed
      && Self.isText(fields)
  }

  func compressed(to gzip: [UInt8]?) -> StoredContent {
    var content = self
    content.gzip = gzip?.withoutSpareCapacity
    content.wasCompressed = true
    return content
  }

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
  /// The same bytes, copied if the array has much spare capacity, because the cache counts only the bytes.
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
  let received: FieldLines
  /// Whether the response has an entity tag. Then a 304 needs no other validator.
  let isTagged: Bool

  /// The fields of a 304 (RFC 9110 §15.4.5).
  public var notModified: FieldSection {
    var section = FieldSection.empty
    section.append(received) { name, bytes in
      bytes.equalsIgnoringCase(name, "content-location")
        || !isTagged && bytes.equalsIgnoringCase(name, "last-modified")
    }
    section.append(fields, from: common)
    return section
  }
}
