import HTTP1
public import HTTPTypes

/// A whole upstream response to a `GET`.
public struct ReceivedResponse: Sendable {
  /// The status.
  public var status: HTTPResponse.Status
  /// All end-to-end fields.
  public var fields: HTTPFields
  /// The fields that the header policy forwards to callers. The cache replaces Age, Cache-Control, Content-Encoding,
  /// Date, ETag, Expires and Vary with its own.
  public var downstream: HTTPFields
  /// The whole content as received, with its content coding.
  public var body: [UInt8]
  /// The fields of the upstream request, by which `Vary` selects. The credential is removed, because it must not be
  /// stored.
  public private(set) var sent: HTTPFields
  /// When the request was sent.
  public var requestedAt: CacheTime
  /// When the head of the response arrived.
  public var receivedAt: CacheTime

  /// Creates a response and removes the credential from `sent`.
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

  /// The response without its content, with the fields needed to evaluate it again when a 304 renews it.
  var metadata: ReceivedResponse {
    var response = self
    response.body = []
    response.fields = HTTPFields()
    for field in fields where Self.isJudged(field.name) { response.fields.append(field) }
    return response
  }

  /// Returns whether the field decides whether, how long and for which callers a response is stored.
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

  /// Returns this response with the metadata of a 304 that confirms it (RFC 9111 §3.2).
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
  let settings: CacheSettings

  /// Returns the content in a coding, with its fields.
  func representation(_ coding: ContentCoding, of body: [UInt8]) -> Representation {
    var common = FieldSection.empty
    common.append(HTTPField(name: .cacheControl, value: cacheControl))
    common.append(Self.noSniff)
    if let vary { common.append(HTTPField(name: .vary, value: vary)) }
    if let tag {
      let tag = isTagged(coding) ? tag : tag.weakened
      common.append(HTTPField(name: .eTag, value: tag.fieldValue))
    }
    var fields = FieldSection.empty
    fields.reserveRoom(for: source.downstream, and: common)
    for field in source.downstream where !Self.isReplaced(field.name) { fields.append(field) }
    if let value = content.unknownCoding ?? (coding == .gzip ? "gzip" : nil) {
      fields.append(HTTPField(name: .contentEncoding, value: value))
    }
    fields.append(common)
    return Representation(
      body: body, fields: fields, common: common, downstream: source.downstream, isTagged: tag != nil)
  }

  private static let noSniff = HTTPField(name: .xContentTypeOptions, value: "nosniff")

  /// Returns whether this type, or ``Selection`` on each send, writes the field itself.
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

  /// Returns whether the unchanged tag belongs to this coding: the coding that the origin sent, or identity for our own
  /// tag. The other coding has different bytes and must have a different tag (RFC 9110 §8.8.3.3).
  private func isTagged(_ coding: ContentCoding) -> Bool {
    coding == (tagIsOurs ? .identity : content.received)
  }

  /// `Cache-Control` for downstream caches: the origin's lifetime, and `private` unless `settings.isPublic`.
  private var cacheControl: String {
    // The cache refused the response, and it states no lifetime: other caches must not store it either.
    guard isStored || freshness.isExplicit || freshness.noCache, !directives.noStore || directives.mustUnderstand else {
      return "no-store"
    }
    let isPublic = settings.isPublic && !directives.isPrivate
    var value = isPublic ? "public" : "private"
    if freshness.noCache { value += ", no-cache" }
    value += ", max-age=\(privateLifetime)"
    if isPublic, let shared = directives.sharedMaxAge { value += ", s-maxage=\(shared)" }
    if directives.mustRevalidate { value += ", must-revalidate" }
    if isPublic, directives.proxyRevalidate { value += ", proxy-revalidate" }
    if directives.noTransform { value += ", no-transform" }
    if let seconds = directives.staleWhileRevalidate { value += ", stale-while-revalidate=\(seconds)" }
    if let seconds = directives.staleIfError { value += ", stale-if-error=\(seconds)" }
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
