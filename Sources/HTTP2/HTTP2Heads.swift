public import Bytes
public import HTTP1

/// The head of a request that a server receives. It is well-formed: names are lower-case tokens, field values follow
/// RFC 9110 §5.5, and there are no connection-specific fields. The meaning of the control data is not checked.
public struct HTTP2ReceivedRequest: Sendable {
  /// The bytes of the head. All ranges count from their first.
  public let bytes: ArraySlice<UInt8>
  /// The fields. The first is Host if the request has an `:authority`, which replaces its own Host (RFC 9113 §8.3.1).
  public let fields: ArraySlice<FieldLine>
  /// Method, scheme, path and authority.
  public let control: RequestControlData
  /// Whether the section exceeds the limits and is dropped, except `Origin`: respond 431 (RFC 6585 §5) or `reset`.
  public let isOversized: Bool

  /// Takes a head from the buffers of its session, and shares them.
  init(_ head: ReceivedHead, in heads: ReceivedHeads, isOversized: Bool) {
    bytes = heads.bytes[head.bytes]
    fields = heads.fields[head.fields]
    control = head.control
    self.isOversized = isOversized
  }
}

/// Where a head is in ``ReceivedHeads``.
struct ReceivedHead {
  let bytes: Range<Int>
  let fields: Range<Int>
  let control: RequestControlData
}

/// The heads of requests that wait for their delivery, one after another in buffers that a session keeps. The last one
/// may be incomplete: a connection receives only one header section at a time (RFC 9113 §4.3). The library has already
/// checked each field; this type applies the limits.
struct ReceivedHeads {
  private(set) var bytes: [UInt8] = []
  private(set) var fields: [FieldLine] = []
  /// Whether the present section exceeded a limit. After that only its lines of `Origin` are stored.
  private(set) var isOversized = false
  /// Whether the present section is so large that no more of it should be decoded.
  private(set) var isExcessive = false
  private var control = RequestControlData()
  private var host: Range<Int>?
  private var size = SectionSize()
  /// The ends of the last complete head in both buffers.
  private var end = (bytes: 0, fields: 0)

  /// Whether complete heads take so much room that they should be delivered before the next one.
  var isFull: Bool { end.bytes >= Self.enough }
  private static let enough = 65_536
  private static let kept = 8192

  /// Starts a section, in place of an incomplete one.
  mutating func begin() {
    dropPresent()
    (isOversized, isExcessive) = (false, false)
    (control, host) = (RequestControlData(), nil)
    size = SectionSize()
  }

  /// Drops all complete heads, after their delivery.
  mutating func dropComplete() {
    guard end.bytes > 0 else { return }
    bytes.removeSubrange(..<end.bytes)
    fields.removeSubrange(..<end.fields)
    end = (0, 0)
    // A connection that waits keeps no more than its usual requests need.
    if bytes.isEmpty, heldBytes > Self.kept { (bytes, fields) = ([], []) }
  }

  var heldBytes: Int { bytes.capacity + fields.capacity * MemoryLayout<FieldLine>.stride }

  mutating func add(_ name: Span<UInt8>, _ value: Span<UInt8>, limits: HTTP2Limits) {
    guard size.add(name, value, limits) else {
      if !isOversized { dropPresentExceptOrigin() }
      isOversized = true
      isExcessive = size.bytes > limits.refusedSection
      if name.equals(name.indices, "origin") { addOrigin(value) }
      return
    }
    if name[0] == UInt8(ascii: ":") { addControlData(name, value) } else { addField(name, value) }
  }

  /// Returns the complete head, or nil if its Host field contradicts `:authority` (RFC 9113 §8.3.1).
  mutating func complete() -> ReceivedHead? {
    if let authority = control.authority, let host {
      let own = bytes.span.extracting(place(of: host))
      guard bytes.span.equalsIgnoringCase(place(of: authority), bytes: own) else { return nil }
    }
    let head = ReceivedHead(bytes: end.bytes..<bytes.count, fields: end.fields..<fields.count, control: control)
    end = (bytes.count, fields.count)
    return head
  }

  private mutating func dropPresent() {
    bytes.removeSubrange(end.bytes...)
    fields.removeSubrange(end.fields...)
  }

  /// Keeps the lines that show whether a page may read the refusal of an oversized section.
  private mutating func dropPresentExceptOrigin() {
    let origins = fields[end.fields...].filter { isNamed($0.name, "origin") }.map { Array(bytes[place(of: $0.value)]) }
    dropPresent()
    (control, host) = (RequestControlData(), nil)
    for origin in origins { addOrigin(origin.span) }
  }

  private mutating func addOrigin(_ value: Span<UInt8>) {
    // A browser sends one Origin of at most some hundred bytes. A second one makes both invalid.
    guard fields.count - end.fields < Self.mostOrigins else { return }
    fields.append(append("origin", value.extracting(first: Self.mostBytesOfOrigin)))
  }

  private static let mostOrigins = 2
  private static let mostBytesOfOrigin = 600

  private mutating func addControlData(_ name: Span<UInt8>, _ value: Span<UInt8>) {
    // The library accepts these four only. Their second letters differ.
    switch name[1] {
    case UInt8(ascii: "m"): control.method = append(value)
    case UInt8(ascii: "s"): control.scheme = append(value)
    case UInt8(ascii: "p"): control.path = append(value)
    default:
      let line = append("host", value)
      control.authority = line.value
      fields.append(line)
    }
  }

  private mutating func addField(_ name: Span<UInt8>, _ value: Span<UInt8>) {
    let line = FieldLine(name: append(name), value: append(value))
    guard control.authority != nil, isNamed(line.name, "host") else { return fields.append(line) }
    // Both are compared at the end of the section.
    host = line.value
  }

  private mutating func append(_ name: StaticString, _ value: Span<UInt8>) -> FieldLine {
    let start = bytes.count - end.bytes
    bytes.append(name)
    return FieldLine(name: start..<bytes.count - end.bytes, value: append(value))
  }

  /// Appends bytes and returns their range in the present head.
  private mutating func append(_ part: Span<UInt8>) -> Range<Int> {
    let start = bytes.count - end.bytes
    bytes.append(copying: part)
    return start..<start + part.count
  }

  private func isNamed(_ name: Range<Int>, _ text: StaticString) -> Bool { bytes.span.equals(place(of: name), text) }

  /// Returns the place of a part of the present head.
  private func place(of part: Range<Int>) -> Range<Int> { end.bytes + part.lowerBound..<end.bytes + part.upperBound }
}

/// The control data and header section of a request that a client sends (RFC 9113 §8.3.1).
public struct HTTP2RequestHead: Sendable, Equatable {
  /// `:method`.
  public var method: String
  /// `:scheme`. Empty for CONNECT.
  public var scheme: String
  /// `:authority`.
  public var authority: String
  /// `:path` with its query. Empty for CONNECT.
  public var path: ByteString
  /// The header fields, without Host.
  public var fields: FieldLines
  /// A field that is sent after the others.
  public var credential: FieldLines

  /// Creates a request to send.
  public init(
    method: String, scheme: String, authority: String, path: ByteString, fields: FieldLines = FieldLines(),
    credential: FieldLines = FieldLines()
  ) {
    (self.method, self.scheme, self.authority, self.path) = (method, scheme, authority, path)
    (self.fields, self.credential) = (fields, credential)
  }
}

/// A final response that a client receives (RFC 9113 §8.3.2), as well-formed as ``HTTP2ReceivedRequest``.
public struct HTTP2ResponseHead: Sendable, Equatable {
  /// `:status`, 200…999, because the session omits informational responses.
  public var status: Int
  /// The header fields.
  public var fields: FieldLines
  /// The value of Content-Length. After HEAD or with a 304 it is not the length of what follows (RFC 9110 §8.6).
  public var contentLength: Int?

  /// Creates a response.
  public init(status: Int, fields: FieldLines = [:], contentLength: Int? = nil) {
    (self.status, self.fields, self.contentLength) = (status, fields, contentLength)
  }
}

/// Collects the header section of a response, within the limits. A connection has only one at a time (RFC 9113 §4.3).
struct ResponseBuilder {
  /// Whether the section exceeded a limit. After that the builder stores nothing.
  private(set) var isOversized = false
  /// The head so far, with the status 0 if it is absent.
  private(set) var head = HTTP2ResponseHead(status: 0)
  private var size = SectionSize()

  mutating func add(_ name: Span<UInt8>, _ value: Span<UInt8>, limits: HTTP2Limits) {
    guard !isOversized else { return }
    guard size.add(name, value, limits) else {
      self = ResponseBuilder()
      return isOversized = true
    }
    if name[0] == UInt8(ascii: ":") {
      head.status = Int(value.string(in: value.indices)) ?? 0
    } else {
      // The library accepts one Content-Length only, with digits only, within the range of its integer.
      if name.equals(name.indices, "content-length") { head.contentLength = Int(value.string(in: value.indices)) }
      head.fields.append(name, value)
    }
  }
}

/// The size of the received part of a header section.
struct SectionSize {
  /// The size as RFC 9113 §6.5.2 counts it.
  private(set) var bytes = 0
  private var lines = 0

  /// Adds a field. Returns whether the section is within the limits.
  mutating func add(_ name: Span<UInt8>, _ value: Span<UInt8>, _ limits: HTTP2Limits) -> Bool {
    // RFC 9113 §6.5.2 adds 32 for each field. A frame or a table entry bounds both counts.
    bytes += name.count + value.count + 32
    if name[0] != UInt8(ascii: ":") { lines += 1 }
    return bytes <= limits.fieldSection && lines <= limits.fieldLines
  }
}
