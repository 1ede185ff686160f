import Bytes

/// The identifier of a trace (W3C Trace Context §3.2.2.3): 128 bits, not all zero. All spans of a trace have it.
public struct TraceID: Sendable, Hashable, CustomStringConvertible {
  let high: UInt64
  let low: UInt64

  init?(high: UInt64, low: UInt64) {
    guard high | low != 0 else { return nil }
    (self.high, self.low) = (high, low)
  }

  fileprivate init(generated high: UInt64, _ low: UInt64) { (self.high, self.low) = (high, low) }

  /// 32 lower-case hexadecimal digits.
  public var description: String {
    var digits: [UInt8] = []
    digits.append(self)
    return String(decoding: digits, as: UTF8.self)
  }
}

/// The identifier of a span (W3C Trace Context §3.2.2.4): 64 bits, not all zero.
public struct SpanID: Sendable, Hashable, CustomStringConvertible {
  let bits: UInt64

  init?(_ bits: UInt64) {
    guard bits != 0 else { return nil }
    self.bits = bits
  }

  /// Creates the identifier of the server's span for the request with this own identifier. Both are a bijection of one
  /// counter, so no two requests of a generator have the same.
  init(ofRequest own: TraceID) { self.init(generated: SplitMix64.mix(own.low ^ 0x9E37_79B9_7F4A_7C15)) }

  fileprivate init(generated bits: UInt64) {
    // One output in 2^64 is the invalid one.
    self.bits = bits == 0 ? 1 : bits
  }

  /// 16 lower-case hexadecimal digits.
  public var description: String {
    var digits: [UInt8] = []
    digits.append(self)
    return String(decoding: digits, as: UTF8.self)
  }
}

extension OutputSpan<UInt8> {
  /// Appends the identifier as 32 lower-case hexadecimal digits. Traps without room for them.
  public mutating func append(_ id: TraceID) {
    append(hexadecimal: id.high)
    append(hexadecimal: id.low)
  }

  /// Appends the identifier as 16 lower-case hexadecimal digits. Traps without room for them.
  public mutating func append(_ id: SpanID) { append(hexadecimal: id.bits) }
}

extension [UInt8] {
  /// Appends the identifier as 32 lower-case hexadecimal digits.
  public mutating func append(_ id: TraceID) {
    append(addingCapacity: 32) { (output: inout OutputSpan<UInt8>) in output.append(id) }
  }

  /// Appends the identifier as 16 lower-case hexadecimal digits.
  public mutating func append(_ id: SpanID) { append(hexadecimal: id.bits) }
}

/// A generator of identifiers of requests and traces without a lock or a system call. Each event loop has its own.
///
/// The upper 64 bits are random and identify it. The lower 64 bits are SplitMix64 from a random start: a bijection of a
/// counter, so no two are equal, and an ID does not reveal the number of requests.
public struct TraceIDGenerator: Sendable {
  private let high: UInt64
  private var numbers: SplitMix64

  /// Creates a generator with a random start.
  public init() {
    // Never 0, so that no identifier is.
    self.init(high: .random(in: .min ... .max) | 1, start: .random(in: .min ... .max))
  }

  init(high: UInt64, start: UInt64) {
    self.high = high
    numbers = SplitMix64(state: start)
  }

  /// Returns an identifier that this generator has not returned before.
  public mutating func next() -> TraceID { TraceID(generated: high, numbers.next()) }
}

/// A generator of identifiers of spans without a system call.
public struct SpanIDGenerator: Sendable {
  private var numbers = SplitMix64(state: .random(in: .min ... .max))

  /// Creates a generator with a random start.
  public init() {}

  /// Returns the next identifier. 2^64 of them differ.
  public mutating func next() -> SpanID { SpanID(generated: numbers.next()) }
}

/// The trace that a request belongs to, and the server's span of the request.
///
/// A caller may choose the trace, which is only a correlation. What costs something or reaches Apple as the caller wrote it,
/// the `sampled` flag and `tracestate`, counts only from trusted proxies.
public struct RequestTrace: Sendable {
  /// The identifier that the server made for the request. It is also the trace, if the request has no parent.
  let own: TraceID
  /// The span of the caller, from a valid `traceparent`.
  public let parent: SpanContext?
  /// Whether a trusted proxy wrote the fields of the parent.
  let isParentTrusted: Bool

  /// Creates the trace of a request. No other request has the identifier `own`. Without a parent it begins a trace.
  public init(_ own: TraceID, parent: SpanContext? = nil, isParentTrusted: Bool = false) {
    (self.own, self.parent, self.isParentTrusted) = (own, parent, isParentTrusted)
  }

  /// The trace: the caller's, or a new one.
  public var traceID: TraceID { parent?.traceID ?? own }
  /// The server's span of this request.
  public var spanID: SpanID { SpanID(ofRequest: own) }

  /// Returns the server's span, for requests that it causes. Without a sampler it has the flag of a trusted proxy.
  public func context(_ sampler: Sampler? = nil) -> SpanContext {
    let isSampled = sampler?.records(self) ?? (isParentTrusted && parent?.isSampled == true)
    return SpanContext(traceID: traceID, spanID: spanID, isSampled: isSampled, state: parent?.state)
  }
}

/// The identifier of a request in logs, responses and error bodies.
public struct RequestID: Sendable, Hashable, CustomStringConvertible {
  enum Content: Sendable, Hashable {
    /// An identifier from this server: 128 bits, without allocations.
    case own(TraceID)
    /// An identifier from a trusted proxy.
    case foreign(String)
  }

  let content: Content

  /// The number of its characters.
  var count: Int {
    switch content {
    case .own: 32
    case .foreign(let text): text.utf8.count
    }
  }

  /// Creates the identifier that a trusted proxy sent. Returns nil unless it is 1 to 64 characters of `A`–`Z`, `a`–`z`,
  /// `0`–`9`, `.`, `_` and `-`, which are safe in a header field, in JSON and in a log.
  public init?(_ text: String) {
    guard (1...64).contains(text.utf8.count), text.utf8.allSatisfy(\.isOfName) else { return nil }
    content = .foreign(text)
  }

  /// Creates an identifier from this server. A trace that the request begins has the same.
  public init(_ own: TraceID) { content = .own(own) }

  /// 32 hexadecimal digits, or the text that the proxy sent.
  public var description: String {
    switch content {
    case .foreign(let text): text
    case .own(let id): id.description
    }
  }
}

extension OutputSpan<UInt8> {
  /// Appends the identifier's characters. Traps without room for them.
  public mutating func append(_ id: RequestID) {
    switch id.content {
    case .foreign(let text): append(utf8: text)
    case .own(let id): append(id)
    }
  }
}

extension [UInt8] {
  /// Appends the identifier's characters.
  public mutating func append(_ id: RequestID) {
    append(addingCapacity: id.count) { (output: inout OutputSpan<UInt8>) in output.append(id) }
  }
}

/// What one service tells the next about its span (W3C Trace Context): `traceparent` and `tracestate`.
public struct SpanContext: Sendable, Equatable {
  /// The trace.
  public var traceID: TraceID
  /// The span of the service that sends the request.
  public var spanID: SpanID
  /// Whether the sender may have recorded the trace.
  public var isSampled: Bool
  /// The value of `tracestate`, or nil without one.
  public var state: TraceState?

  /// Creates a context.
  public init(traceID: TraceID, spanID: SpanID, isSampled: Bool, state: TraceState? = nil) {
    (self.traceID, self.spanID, self.isSampled, self.state) = (traceID, spanID, isSampled, state)
  }

  /// Parses the only `traceparent` of a request, in constant time. Nil if it is malformed: a new trace begins (§4.3).
  ///
  /// Version 00 has exactly 55 bytes. A later version may append more after a dash, which is ignored, and `ff` is invalid
  /// (§4.3). Digits are in lower case, and neither identifier is all zero (§3.2.2).
  public init?(traceparent value: Span<UInt8>) {
    guard value.count >= Self.length, value[2] == Self.dash, value[35] == Self.dash, value[52] == Self.dash,
      let version = value.lowercaseHexadecimal(in: 0..<2), version != 0xFF,
      value.count == Self.length || (version > 0 && value[Self.length] == Self.dash),
      let high = value.lowercaseHexadecimal(in: 3..<19), let low = value.lowercaseHexadecimal(in: 19..<35),
      let traceID = TraceID(high: high, low: low),
      let parent = value.lowercaseHexadecimal(in: 36..<52), let spanID = SpanID(parent),
      let flags = value.lowercaseHexadecimal(in: 53..<55)
    else { return nil }
    self.init(traceID: traceID, spanID: spanID, isSampled: flags & 1 == 1)
  }

  /// Appends a `traceparent` for requests that this span sends: ``length`` bytes, no flag but `sampled` (§3.2.2.5).
  public func appendTraceparent(to value: inout OutputSpan<UInt8>) {
    value.append("00-")
    value.append(traceID)
    value.append("-")
    value.append(spanID)
    value.append(isSampled ? "-01" : "-00")
  }

  /// Returns the context of a span that this span causes.
  public func child(_ spanID: SpanID) -> SpanContext {
    SpanContext(traceID: traceID, spanID: spanID, isSampled: isSampled, state: state)
  }

  /// The length of a `traceparent` of version 00: version, trace, span and flags, with a dash between them.
  public static let length = 55
  private static let dash = UInt8(ascii: "-")
}

extension Span<UInt8> {
  /// Returns the number in at most 16 hexadecimal digits, or nil if a byte is not such a digit in lower case.
  fileprivate func lowercaseHexadecimal(in range: Range<Int>) -> UInt64? {
    var number: UInt64 = 0
    for index in range {
      let byte = self[index]
      guard let digit = byte.hexadecimalDigit, byte < UInt8(ascii: "A") || byte >= UInt8(ascii: "a") else { return nil }
      number = number << 4 | UInt64(digit)
    }
    return number
  }
}
