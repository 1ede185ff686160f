import HTTP1
import HTTPTypes

/// The fields of an answer on its way to callers, as far as they are the same each time.
struct AnswerFields {
  let source: ReceivedAnswer
  let content: AnswerContent
  let directives: ResponseDirectives
  let freshness: Freshness
  let selector: VariantSelector?
  let tag: EntityTag?
  let tagIsOurs: Bool
  let isStored: Bool
  let settings: CacheSettings

  /// The content in a coding, with its fields.
  func representation(_ coding: ContentCoding, of body: [UInt8]) -> Representation {
    var common = HTTPFields()
    common[.cacheControl] = cacheControl
    common[.vary] = vary
    common[.eTag] = tag.map { isTagged(coding) ? $0.fieldValue : $0.weakened.fieldValue }
    var fields = HTTPFields()
    for field in source.downstream where !Self.replaced.contains(field.name) { fields.append(field) }
    if coding == .gzip { fields[.contentEncoding] = "gzip" }
    if let unknown = content.unknownCoding { fields[.contentEncoding] = unknown }
    var notModified = HTTPFields()
    notModified[.contentLocation] = source.downstream[.contentLocation]
    if tag == nil { notModified[.lastModified] = source.downstream[.lastModified] }
    return Representation(
      body: body, fields: FieldSection(fields + common), notModified: FieldSection(notModified + common))
  }

  /// What this type writes itself, or ``Selection`` for each response.
  private static let replaced: Set<HTTPField.Name> = [
    .age, .cacheControl, .contentEncoding, .contentLength, .date, .eTag, .expires, .vary,
  ]

  /// Whether the tag as it stands is for this coding: the one that the origin sent, or the content that ours was made
  /// from. The other coding is not the same bytes and has to differ (RFC 9110 §8.8.3.3).
  private func isTagged(_ coding: ContentCoding) -> Bool {
    coding == (tagIsOurs ? .identity : content.received)
  }

  /// For the caches behind us: as long as the origin allows them, and for no one else's eyes unless anybody may ask.
  private var cacheControl: String {
    // Refused, and nothing said how long it is good for: nobody need keep it.
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
    // Whoever sends it adds the name of the page that may read it, if only to the answers that everybody may have.
    names.append(.origin)
    names += selector.names.filter { !names.contains($0) }
    return names.map(\.rawName).joined(separator: ", ")
  }
}
