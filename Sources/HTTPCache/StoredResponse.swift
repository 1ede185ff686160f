import Bytes
public import HTTP1
public import HTTPTypes

/// A whole response, with all that is the same each time it is sent made ready once. Immutable, and shared by all loops.
///
/// It need not be storable: a response that only the callers who wait for it get is sent by the same way.
public final class StoredResponse: Sendable {
  /// Its status.
  public let status: HTTPResponse.Status
  /// Whether the cache takes it, and why not.
  public let verdict: StorageVerdict
  /// Whether all who asked for it at the same time may have it (RFC 9111 §4): no if it says `private` or `no-store`, if no
  /// other request selects it (`Vary: *`), or if it sets a cookie.
  public let isShareable: Bool

  let source: ReceivedResponse
  let content: StoredContent
  let freshness: Freshness
  let age: ResponseAge
  /// Nil if no other request may have it.
  let selector: VariantSelector?
  /// The tag that the origin gave, or else our own; nil if there is neither.
  let tag: EntityTag?
  /// When the origin made it.
  let dateField: HTTPField
  private let identity: Representation
  private let gzip: Representation?
  private let settings: CacheSettings

  /// Makes a response ready to be sent.
  ///
  /// Throws if its content is gzipped and cannot be decoded, or not within `settings.largestContent`: in the latter case
  /// it can still be handed on as it is to those who asked for gzip.
  public convenience init(_ received: ReceivedResponse, settings: CacheSettings) throws(ContentCodingError) {
    let directives = ResponseDirectives(received.fields)
    let content = try StoredContent(received, directives: directives, limit: settings.largestContent)
    self.init(received, content: content, directives: directives, settings: settings)
  }

  private init(
    _ received: ReceivedResponse, content: StoredContent, directives: ResponseDirectives, settings: CacheSettings
  ) {
    let source = received.metadata
    let age = ResponseAge(received.fields, requestedAt: received.requestedAt, receivedAt: received.receivedAt)
    let freshness = Freshness(
      directives, fields: received.fields, status: received.status.code, date: age.date, now: received.receivedAt.wall,
      settings: settings)
    let selector = VariantSelector(received.fields, sent: received.sent)
    let verdict = StorageVerdict(
      received, content: content, directives: directives, freshness: freshness, isSelectable: selector != nil,
      settings: settings)
    let given = received.fields[.eTag].flatMap { EntityTag($0) }
    let tag = given ?? (verdict == .store && received.status == .ok ? EntityTag(ofContent: content.identity) : nil)
    let fields = StoredFields(
      source: source, content: content, directives: directives, freshness: freshness, selector: selector, tag: tag,
      tagIsOurs: given == nil, isStored: verdict == .store, settings: settings)
    var date: [UInt8] = []
    HTTPDate(secondsSinceEpoch: age.date).append(to: &date)
    dateField = HTTPField(name: .date, value: String(decoding: date, as: UTF8.self))
    status = received.status
    identity = fields.representation(.identity, of: content.identity)
    gzip = content.gzip.map { fields.representation(.gzip, of: $0) }
    (self.source, self.content, self.settings, self.verdict) = (source, content, settings, verdict)
    let isForOne = directives.isPrivate || directives.noStore || selector == nil || received.fields.contains(.setCookie)
    isShareable = verdict == .store || !isForOne
    (self.age, self.freshness, self.selector, self.tag) = (age, freshness, selector, tag)
  }

  // MARK: What is sent

  /// The response in a coding; as it is where there is no other.
  public func representation(_ coding: ContentCoding) -> Representation {
    coding == .gzip ? gzip ?? identity : identity
  }

  /// Whether it has no gzip yet and ``ResponseCache/compress(_:for:)`` may make one.
  public var awaitsCompression: Bool { content.compression == .possible && verdict == .store }

  /// Whether a caller with these conditions has this representation already: it is then to be sent as 304.
  ///
  /// - Parameter now: The present.
  public func isNotModified(_ preconditions: Preconditions, now: CacheTime) -> Bool {
    guard status == .ok, !preconditions.isEmpty else { return false }
    let modified = source.fields[.lastModified].flatMap { FieldDate.seconds($0, now: now.wall) }
    return preconditions.isNotModified(byTag: tag?.opaque, modified: modified ?? age.date, now: now.wall)
  }

  // MARK: Validation

  /// The fields that make a request ask whether this response still holds (RFC 9111 §4.3.1). Empty if the origin gave
  /// nothing to ask by: our own entity tag means nothing to it.
  public var validators: HTTPFields {
    var fields = HTTPFields()
    if let tag = source.fields[.eTag], EntityTag(tag) != nil { fields[.ifNoneMatch] = tag }
    if let modified = source.fields[.lastModified] { fields[.ifModifiedSince] = modified }
    return fields
  }

  /// This response as a 304 renews it; nil if the 304 is about another version (RFC 9111 §4.3.4).
  func freshened(by notModified: ReceivedResponse, settings: CacheSettings) -> StoredResponse? {
    if let theirs = notModified.fields[.eTag] {
      guard let ours = source.fields[.eTag], EntityTag(ours)?.opaque == EntityTag(theirs)?.opaque else { return nil }
    } else if let theirs = notModified.fields[.lastModified] {
      guard source.fields[.lastModified] == theirs else { return nil }
    }
    let updated = source.updated(by: notModified)
    return StoredResponse(updated, content: content, directives: ResponseDirectives(updated.fields), settings: settings)
  }

  /// This response with gzip made, or known to be in vain.
  func compressed() -> StoredResponse {
    StoredResponse(
      source, content: content.compressed(), directives: ResponseDirectives(source.fields), settings: settings)
  }

  // MARK: Size

  /// What it takes in memory, in bytes: contents, fields in the forms they are kept in, and the objects.
  var cost: Int {
    let fields = (source.fields + source.downstream + source.sent).reduce(0) { sum, field in
      sum + 80 + 2 * (field.name.rawName.utf8.count + field.value.utf8.count)
    }
    return content.count + fields + (selector?.cost ?? 0) + Self.overhead
  }

  /// Measured: with this, what is counted is about a tenth more than what the process grows by.
  private static let overhead = 1280
}

/// A response's content in the codings that there are of it.
struct StoredContent: Sendable {
  /// What may still become of it.
  enum Compression: Equatable {
    /// Worth trying.
    case possible
    /// Done, or in vain, or not for us to do.
    case settled
  }

  /// Decoded; as it came if it is coded by what we do not know.
  let identity: [UInt8]
  private(set) var gzip: [UInt8]?
  private(set) var compression: Compression
  /// The coding it came in: that one is what the origin's entity tag is for.
  let received: ContentCoding
  /// The value of Content-Encoding that we do not know.
  let unknownCoding: String?

  /// Below this the fields weigh more than what is saved.
  private static let leastCompressed = 1024

  init(_ received: ReceivedResponse, directives: ResponseDirectives, limit: Int) throws(ContentCodingError) {
    let coding = received.fields[.contentEncoding].map { ByteString($0).lowercasedASCII }
    switch coding {
    case "gzip" where !received.body.isEmpty, "x-gzip" where !received.body.isEmpty:
      identity = try Gzip.inflate(received.body, limit: limit).withoutSpareCapacity
      gzip = received.body.withoutSpareCapacity
      self.received = .gzip
      unknownCoding = nil
    case nil, "identity", "gzip", "x-gzip", "":
      identity = received.body.withoutSpareCapacity
      self.received = .identity
      unknownCoding = nil
    default:
      identity = received.body.withoutSpareCapacity
      self.received = .identity
      unknownCoding = received.fields[.contentEncoding]
    }
    // A coding is a transformation (RFC 9110 §7.7). Undoing the coding that the proxy itself requested is not.
    let mayCompress = unknownCoding == nil && gzip == nil && !directives.noTransform
    let isWorthIt = identity.count >= Self.leastCompressed && Self.isText(received.fields[.contentType])
    compression = mayCompress && isWorthIt ? .possible : .settled
  }

  /// Whether callers get it in one coding or another.
  var isNegotiated: Bool { gzip != nil || compression == .possible }

  /// With gzip, if that makes it smaller.
  func compressed() -> StoredContent {
    guard compression == .possible else { return self }
    var content = self
    content.gzip = Gzip.deflate(identity)?.withoutSpareCapacity
    content.compression = .settled
    return content
  }

  /// Bytes of all codings.
  var count: Int { identity.count + (gzip?.count ?? 0) }

  private static func isText(_ contentType: String?) -> Bool {
    guard let contentType else { return false }
    let name = ByteString(contentType).lowercasedASCII.bytes.prefix {
      $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: " ")
    }
    return name.elementsEqual("application/json".utf8) || name.suffix(5).elementsEqual("+json".utf8)
      || name.starts(with: "text/".utf8)
  }
}

extension [UInt8] {
  /// The same bytes, copied if the array has much spare capacity. Appending doubles the capacity, but the cache counts
  /// the bytes only.
  fileprivate var withoutSpareCapacity: [UInt8] {
    guard capacity - count > count / 16 + 64 else { return self }
    var exact: [UInt8] = []
    exact.reserveCapacity(count)
    exact.append(contentsOf: self)
    return exact
  }
}

/// A response in one content coding, ready to be sent.
public struct Representation: Sendable {
  /// The content.
  public let body: [UInt8]
  /// All fields that are the same each time; ``Selection/fields(_:)`` has the others.
  public let fields: FieldSection
  /// Those of a 304 (RFC 9110 §15.4.5).
  public let notModified: FieldSection
}
