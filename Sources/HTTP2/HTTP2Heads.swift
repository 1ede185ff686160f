public import Bytes
public import HTTP1

/// The head of a request that a server receives: ranges of its bytes.
///
/// It is well-formed: names are lower-case tokens, field values follow RFC 9110 §5.5, and there are no
/// connection-specific fields. The meaning of the control data is not checked.
public struct HTTP2ReceivedRequest: Sendable {
  /// The bytes of the head. All ranges count from their first.
  public let bytes: ArraySlice<UInt8>
  /// The fields. The first one is Host if the request has an `:authority`, which replaces the request's own Host
  /// (RFC 9113 §8.3.1).
  public let fields: ArraySlice<FieldLine>
  /// Method, scheme, path and authority.
  public let control: RequestControlData
  /// Whether the header section exceeds the limits and is dropped, except `Origin`, so that a page can read the response:
  /// respond 431 (RFC 6585 §5) or `reset`.
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
/// may be incomplete: a connection receives only one header section at a time (RFC 9113 §4.3).
///
/// The library has already checked each field: names, values, order and number of pseudo-header fields, and
/// connection-specific fields. This type applies the limits.
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

  mutating func add(
    _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, limits: HTTP2Limits
  ) {
    guard unsafe size.add(name, value, limits) else {
      if !isOversized { dropPresentExceptOrigin() }
      isOversized = true
      isExcessive = size.bytes > limits.refusedSection
      return unsafe addOrigin(name, value)
    }
    if unsafe name.first == UInt8(ascii: ":") {
      unsafe addControlData(name, value)
    } else {
      unsafe addField(name, value)
    }
  }

  /// Returns the complete head, or nil if its Host field contradicts `:authority` (RFC 9113 §8.3.1).
  mutating func complete() -> ReceivedHead? {
    if let authority = control.authority, let host, !isEqual(authority, host) { return nil }
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
    let start = end.bytes
    let origins = fields[end.fields...].filter { isNamed($0.name, "origin") }.prefix(Self.mostOrigins).map {
      Array(bytes[start + $0.value.lowerBound..<start + $0.value.upperBound].prefix(Self.mostBytesOfOrigin))
    }
    dropPresent()
    (control, host) = (RequestControlData(), nil)
    for origin in origins {
      let name = bytes.count - start
      bytes.append("origin")
      bytes.append(contentsOf: origin)
      fields.append(FieldLine(name: name..<name + 6, value: name + 6..<name + 6 + origin.count))
    }
  }

  private mutating func addOrigin(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
    // A browser sends one Origin of at most some hundred bytes. A second one makes both invalid.
    guard name.count == 6, unsafe name.elementsEqual("origin".utf8), fields.count - end.fields < Self.mostOrigins else {
      return
    }
    let kept = unsafe UnsafeBufferPointer(rebasing: value.prefix(Self.mostBytesOfOrigin))
    fields.append(FieldLine(name: unsafe append(name), value: unsafe append(kept)))
  }

  private static let mostOrigins = 2
  private static let mostBytesOfOrigin = 600

  private mutating func addControlData(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
    // The library accepts these four only. Their second letters differ.
    switch unsafe name[1] {
    case UInt8(ascii: "m"): control.method = unsafe append(value)
    case UInt8(ascii: "s"): control.scheme = unsafe append(value)
    case UInt8(ascii: "p"): control.path = unsafe append(value)
    default:
      let name = bytes.count - end.bytes
      bytes.append("host")
      let line = FieldLine(name: name..<name + 4, value: unsafe append(value))
      control.authority = line.value
      fields.append(line)
    }
  }

  private mutating func addField(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
    let line = FieldLine(name: unsafe append(name), value: unsafe append(value))
    guard control.authority != nil, isNamed(line.name, "host") else { return fields.append(line) }
    // Both are compared at the end of the section.
    host = line.value
  }

  /// Appends bytes and returns their range in the present head.
  private mutating func append(_ part: UnsafeBufferPointer<UInt8>) -> Range<Int> {
    let start = bytes.count - end.bytes
    unsafe bytes.append(contentsOf: part)
    return start..<start + part.count
  }

  private func isNamed(_ name: Range<Int>, _ text: StaticString) -> Bool {
    bytes.span.equals(end.bytes + name.lowerBound..<end.bytes + name.upperBound, text)
  }

  /// Returns whether two parts of the present head are equal, ignoring the case of ASCII letters.
  private func isEqual(_ first: Range<Int>, _ second: Range<Int>) -> Bool {
    let start = end.bytes
    return first.count == second.count
      && zip(first, second).allSatisfy { bytes[start + $0].lowercased == bytes[start + $1].lowercased }
  }
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

/// The status and header section of a final response that a client receives (RFC 9113 §8.3.2).
///
/// It is well-formed: names are lower-case tokens, field values follow RFC 9110 §5.5, and there are no
/// connection-specific fields.
public struct HTTP2ResponseHead: Sendable, Equatable {
  /// `:status`, 200…999, because the session omits informational responses.
  public var status: Int
  /// The header fields.
  public var fields: FieldLines
  /// The value of Content-Length in bytes, if there is one. After HEAD or with a 304 it does not state the length of the
  /// content that follows (RFC 9110 §8.6).
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
  /// `:status`, or 0 if it is absent.
  private(set) var status = 0
  private var contentLength: Int?
  private var size = SectionSize()
  private var fields = FieldLines()

  mutating func add(
    _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, limits: HTTP2Limits
  ) {
    guard !isOversized else { return }
    guard unsafe size.add(name, value, limits) else {
      self = ResponseBuilder()
      isOversized = true
      return
    }
    // Safe: the spans do not leave this call, which has the bytes.
    let (name, value) = unsafe (Span(_unsafeElements: name), Span(_unsafeElements: value))
    if name[0] == UInt8(ascii: ":") {
      status = value.decimal ?? 0
    } else {
      // The library accepts one Content-Length only, with digits only, within the range of its integer.
      if name.equals(name.indices, "content-length") { contentLength = value.decimal }
      fields.append(name, value)
    }
  }

  func response() -> HTTP2ResponseHead {
    HTTP2ResponseHead(status: status, fields: fields, contentLength: contentLength)
  }
}

extension Span<UInt8> {
  fileprivate var decimal: Int? { Int(string(in: indices)) }
}

/// The size of the received part of a header section.
struct SectionSize {
  /// The size as RFC 9113 §6.5.2 counts it.
  private(set) var bytes = 0
  private var lines = 0

  mutating func add(
    _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, _ limits: HTTP2Limits
  ) -> Bool {
    // RFC 9113 §6.5.2 adds 32 for each field. A frame or a table entry bounds both counts.
    bytes += name.count + value.count + 32
    if unsafe name.first != UInt8(ascii: ":") { lines += 1 }
    return bytes <= limits.fieldSection && lines <= limits.fieldLines
  }
}
