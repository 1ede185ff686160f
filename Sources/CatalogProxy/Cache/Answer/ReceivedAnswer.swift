public import HTTPTypes

/// A whole answer to a `GET`, as it came from upstream.
public struct ReceivedAnswer: Sendable {
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
  /// When the head of the answer came.
  public var receivedAt: CacheTime

  /// An answer.
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
  var metadata: ReceivedAnswer {
    var answer = self
    answer.body = []
    answer.fields = HTTPFields()
    for field in fields where Self.isJudged(field.name) { answer.fields.append(field) }
    return answer
  }

  /// The fields that decide whether and how long an answer is kept, and for whom.
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

  /// This answer with the metadata of a 304 that says it still holds (RFC 9111 §3.2).
  ///
  /// The fields that describe the content stay, because the 304 has no content. Age and Date come only from the 304:
  /// the old values would make the response seem older than it is.
  func updated(by notModified: ReceivedAnswer) -> ReceivedAnswer {
    var answer = self
    answer.fields.update(from: notModified.fields)
    answer.downstream.update(from: notModified.downstream)
    answer.requestedAt = notModified.requestedAt
    answer.receivedAt = notModified.receivedAt
    return answer
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
