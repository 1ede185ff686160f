import HTTP1
public import HTTPTypes

/// A whole response to a `GET`, as it came from upstream.
public struct ReceivedResponse: Sendable {
  /// Its status.
  public var status: HTTPResponse.Status
  /// All of its end-to-end fields.
  public var fields: HTTPFields
  /// Those that the header policy lets through to callers. What the cache writes itself is replaced: Age, Cache-Control,
  /// Content-Encoding, Date, ETag, Expires, Vary.
  public var downstream: HTTPFields
  /// Its content, all of it, as it was coded.
  public var body: [UInt8]
  /// What was sent upstream to get it: `Vary` selects by this. Without the credential, which is not for keeping.
  public private(set) var sent: HTTPFields
  /// When the request was sent.
  public var requestedAt: CacheTime
  /// When the head of the response came.
  public var receivedAt: CacheTime

  /// A response.
  public init(
    status: HTTPResponse.Status, fields: HTTPFields, downstream: HTTPFields, body: [UInt8], sent: HTTPFields = [:],
    requestedAt: CacheTime, receivedAt: CacheTime
  ) {
    self.status = status
    self.fields = fields
    self.downstream = downstream
    self.body = body
    self.sent = sent
    if sent.contains(.authorization) { self.sent[.authorization] = nil }
    self.requestedAt = requestedAt
    self.receivedAt = receivedAt
  }

  /// What has to be kept of it beside the content, to judge it again when a 304 renews it.
  var metadata: ReceivedResponse {
    var response = self
    response.body = []
    response.fields = HTTPFields()
    for field in fields where Self.isJudged(field.name) { response.fields.append(field) }
    return response
  }

  /// The fields that decide whether and how long a response is kept, and for whom.
  private static func isJudged(_ name: HTTPField.Name) -> Bool {
    switch name.canonicalName.utf8.count {
    case 3: name == .age
    case 4: name == .date || name == .eTag || name == .vary
    case 7: name == .expires
    case 10: name == .setCookie
    case 12: name == .contentType
    case 13: name == .cacheControl || name == .contentRange || name == .lastModified
    case 16: name == .contentEncoding
    default: false
    }
  }

  /// This response with the metadata of a 304 that says it still holds (RFC 9111 §3.2).
  ///
  /// The fields that describe the content stay, because the 304 has no content. Age and Date come only from the 304:
  /// the old values would make the response seem older than it is.
  func updated(by notModified: ReceivedResponse) -> ReceivedResponse {
    var response = self
    response.fields.update(from: notModified.fields)
    response.downstream.update(from: notModified.downstream)
    response.requestedAt = notModified.requestedAt
    response.receivedAt = notModified.receivedAt
    return response
  }
}

extension HTTPFields {
  fileprivate mutating func update(from newer: HTTPFields) {
    self[.age] = nil
    self[.date] = nil
    for name in Set(newer.map(\.name)) {
      switch name {
      case .contentEncoding, .contentLength, .contentRange, .contentType, .setCookie: continue
      default: self[fields: name] = newer[fields: name]
      }
    }
  }
}

/// The fields of a stored response that are the same for every caller.
struct StoredFields {
  let source: ReceivedResponse
  let content: StoredContent
  let directives: ResponseDirectives
  let freshness: Freshness
  let selector: VariantSelector?
  let tag: EntityTag?
  let tagIsOurs: Bool
  let isStored: Bool
  let settings: CacheSettings

  /// The content in a coding, with its fields.
  func representation(_ coding: ContentCoding, of body: [UInt8]) -> Representation {
    var common = [
      HTTPField(name: .cacheControl, value: cacheControl), HTTPField(name: .xContentTypeOptions, value: "nosniff"),
    ]
    if let vary { common.append(HTTPField(name: .vary, value: vary)) }
    if let tag {
      let tag = isTagged(coding) ? tag : tag.weakened
      common.append(HTTPField(name: .eTag, value: tag.fieldValue))
    }
    var fields = HTTPFields()
    fields.reserveCapacity(source.downstream.count + common.count + 1)
    for field in source.downstream where !Self.isReplaced(field.name) { fields.append(field) }
    if let value = content.unknownCoding ?? (coding == .gzip ? "gzip" : nil) {
      fields.append(HTTPField(name: .contentEncoding, value: value))
    }
    var notModified = HTTPFields()
    if let location = source.downstream[.contentLocation] { notModified[.contentLocation] = location }
    if tag == nil, let modified = source.downstream[.lastModified] { notModified[.lastModified] = modified }
    for field in common {
      fields.append(field)
      notModified.append(field)
    }
    return Representation(body: body, fields: FieldSection(fields), notModified: FieldSection(notModified))
  }

  /// What this type writes itself, or ``Selection`` for each response.
  private static func isReplaced(_ name: HTTPField.Name) -> Bool {
    switch name.canonicalName.utf8.count {
    case 3: name == .age
    case 4: name == .date || name == .eTag || name == .vary
    case 7: name == .expires
    case 13: name == .cacheControl
    case 14: name == .contentLength
    case 16: name == .contentEncoding
    default: false
    }
  }

  /// Whether the tag as it stands is for this coding: the one that the origin sent, or the content that ours was made
  /// from. The other coding is not the same bytes and has to differ (RFC 9110 §8.8.3.3).
  private func isTagged(_ coding: ContentCoding) -> Bool {
    coding == (tagIsOurs ? .identity : content.received)
  }

  /// For the caches behind us: as long as the origin allows them, and for no one else's eyes unless anybody may ask.
  private var cacheControl: String {
    // The cache refused the response, and nothing says how long it is fresh: other caches must not store it either.
    guard isStored || freshness.isExplicit || freshness.noCache, !directives.noStore || directives.mustUnderstand else {
      return "no-store"
    }
    let isPublic = settings.isPublic && !directives.isPrivate
    var parts = [isPublic ? "public" : "private"]
    if freshness.noCache { parts.append("no-cache") }
    parts.append("max-age=\(privateLifetime)")
    if isPublic, let shared = directives.sharedMaxAge { parts.append("s-maxage=\(shared)") }
    if directives.mustRevalidate { parts.append("must-revalidate") }
    if isPublic, directives.proxyRevalidate { parts.append("proxy-revalidate") }
    if directives.noTransform { parts.append("no-transform") }
    if let seconds = directives.staleWhileRevalidate { parts.append("stale-while-revalidate=\(seconds)") }
    if let seconds = directives.staleIfError { parts.append("stale-if-error=\(seconds)") }
    return parts.joined(separator: ", ")
  }

  /// The lifetime without `s-maxage`, which is not for a browser.
  private var privateLifetime: Int {
    if let maxAge = directives.maxAge { return maxAge }
    guard directives.sharedMaxAge != nil else { return freshness.lifetime }
    let now = source.receivedAt
    let date = ResponseAge(source.fields, requestedAt: source.requestedAt, receivedAt: now).date
    return Freshness.lifetime(untilExpiry: source.fields, date: date, now: now.wall) ?? settings.lifetime
  }

  private var vary: String? {
    guard let selector else { return "*" }
    var names: [HTTPField.Name] = []
    if content.isNegotiated { names.append(.acceptEncoding) }
    // Whether a page may read the response (CORS) depends on it, also where anybody may have it.
    names.append(.origin)
    names += selector.names.filter { !names.contains($0) }
    return names.isEmpty ? nil : names.map(\.rawName).joined(separator: ", ")
  }
}
