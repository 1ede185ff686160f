import Bytes

/// The audit record of a change of the signing key.
public struct KeyAuditRecord: Sendable {
  /// The event in one word, such as `key_promoted`.
  public var event: StaticString
  /// The ID of the key: the one that signs now, or the one that Apple Music refused.
  public var keyID: String
  /// The SHA-256 of the key's public half, in hexadecimal.
  public var fingerprint: String
  /// The ID of the key that signed before. Nil if the same key still signs.
  public var previous: String?
  /// The time until which callers may hold tokens of that key, in seconds since 1970.
  public var tokensExpire: Int?

  /// Creates a record of one event.
  public init(
    event: StaticString, keyID: String, fingerprint: String, previous: String? = nil, tokensExpire: Int? = nil
  ) {
    self.event = event
    self.keyID = keyID
    self.fingerprint = fingerprint
    self.previous = previous
    self.tokensExpire = tokensExpire
  }
}

extension KeyAuditRecord {
  func append(to bytes: inout [UInt8], format: LogFormat, time: LineTime) {
    let texts = keyID.utf8.count + fingerprint.utf8.count + (previous ?? "").utf8.count
    let room = LogFormat.roomForRecord + LogFormat.room(forTexts: texts)
    bytes.append(addingCapacity: room) { (line: inout OutputSpan<UInt8>) in
      format.begin(&line, time: time, level: "info", literal: "audit")
      format.field(&line, json: #","audit.event":"#, word: event)
      format.field(&line, json: #","key.id":"#, keyID)
      format.field(&line, json: #","key.fingerprint":"#, fingerprint)
      if let previous { format.field(&line, json: #","key.previous":"#, previous) }
      if let tokensExpire {
        format.field(&line, json: #","tokens.expire":"#, "\(CivilTime(secondsSinceEpoch: tokensExpire))")
      }
      format.end(&line)
    }
  }
}

extension AuditLog {
  /// Writes one record.
  public func write(_ record: KeyAuditRecord) {
    guard hasLines else { return }
    sink.append(.keyEvent) { bytes, format, time in record.append(to: &bytes, format: format, time: time) }
  }
}
