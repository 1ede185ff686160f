import Bytes

/// What a request head says: facts, and ranges into the received bytes. It holds no bytes itself.
///
/// All ranges are relative to the start of the buffer that ``RequestHeadParser/parse(_:)`` was given.
public struct RequestHead: Sendable, Equatable {
  /// The method, known ones by name.
  public internal(set) var method = Method.other
  /// The bytes of the method: a token, case-sensitive.
  public internal(set) var methodRange = 0..<0
  /// The bytes of the request target as received.
  public internal(set) var target = 0..<0
  /// The form of the request target.
  public internal(set) var targetForm = TargetForm.origin
  /// The path, still percent-encoded.
  ///
  /// It begins with `/` in origin-form. In absolute-form it is the part behind the authority and may be empty, which
  /// means `/` (RFC 9110 §4.2.3), or for OPTIONS without a query what `*` means (RFC 9112 §3.2.4). It is `*` in
  /// asterisk-form and empty in authority-form.
  public internal(set) var path = 0..<0
  /// The query without its `?`, still percent-encoded; nil if there is no `?`.
  public internal(set) var query: Range<Int>?
  /// Host and optional port: of the target in absolute-form and authority-form (RFC 9112 §3.2.2), else of Host. Empty
  /// only in HTTP/1.0 without Host.
  public internal(set) var authority = 0..<0
  /// The version of the protocol.
  public internal(set) var version = HTTPVersion.http11
  /// The field lines, in the order received.
  public internal(set) var fields: [FieldLine] = []
  /// How the body is framed.
  public internal(set) var framing = MessageFraming.none
  /// Whether the client lets the connection go on after the response (RFC 9112 §9.3).
  public internal(set) var keepAlive = true
  /// Whether the client waits for 100 (Continue) before it sends the body (RFC 9110 §10.1.1). Never so in HTTP/1.0 or
  /// without a body.
  public internal(set) var expectsContinue = false
  /// Which of the fields are present that proxies write, but that any client can send as well.
  public internal(set) var forwarding: ForwardingFields = []

  /// Forgets every range, except for the lines of one field. Returns their bytes in memory of their own.
  mutating func forget(_ bytes: Span<UInt8>, except lowercaseName: StaticString?) -> [UInt8] {
    var kept: [UInt8] = []
    var lines: [FieldLine] = []
    for line in fields {
      guard let lowercaseName, isNamed(line, lowercaseName, in: bytes) else { continue }
      let name = kept.count..<kept.count + line.name.count
      kept.append(copying: bytes.extracting(line.name))
      let value = kept.count..<kept.count + line.value.count
      kept.append(copying: bytes.extracting(line.value))
      lines.append(FieldLine(name: name, value: value))
    }
    (methodRange, target, path, query, authority) = (0..<0, 0..<0, 0..<0, nil, 0..<0)
    fields = lines
    return kept
  }

  /// The bytes that ``fields`` take.
  public var storageBytes: Int { fields.capacity * MemoryLayout<FieldLine>.stride }

  /// Forgets everything but the storage of ``fields``.
  mutating func reset() {
    var storage: [FieldLine] = []
    swap(&storage, &fields)
    storage.removeAll(keepingCapacity: true)
    self = RequestHead()
    fields = storage
  }
}
