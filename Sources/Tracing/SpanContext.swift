import Bytes

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

/// What tracing systems have attached to a trace (§3.3), passed on without white space and empty members.
public struct TraceState: Sendable, Equatable, CustomStringConvertible {
  /// The members, joined by commas.
  public let description: String

  /// The maximum length of all field lines together: 512 bytes, which the specification requires at least (§3.3.1.5).
  static let limit = 512
  /// The maximum number of members (§3.3.1.1).
  static let maximumCount = 32

  /// The field lines of a request, which form one list in their order (§3.3.1).
  public struct Reader {
    private var value: [UInt8] = []
    private var isTooLong = false

    /// Creates a reader without lines.
    public init() {}

    /// Adds a field line, unless the lines are too long together.
    public mutating func add(_ line: Span<UInt8>) {
      guard value.count + 1 + line.count <= TraceState.limit + 1 else { return isTooLong = true }
      value.append(UInt8(ascii: ","))
      value.append(copying: line)
    }

    /// The value, or nil without lines, or if the value is malformed or too long: a service then ignores all of it.
    public var state: TraceState? { isTooLong ? nil : TraceState(value.span) }
  }

  init?(_ value: Span<UInt8>) {
    var members: [UInt8] = []
    var keys: [Range<Int>] = []
    var start = 0
    for index in 0...value.count where index == value.count || value[index] == UInt8(ascii: ",") {
      let member = value.trimmingWhitespace(start..<index)
      start = index + 1
      guard !member.isEmpty else { continue }
      guard let key = value.traceStateKey(of: member), keys.count < Self.maximumCount,
        !keys.contains(where: { value.areEqual($0, key) })
      else { return nil }
      keys.append(key)
      if !members.isEmpty { members.append(",") }
      members.append(copying: value.extracting(member))
    }
    guard !members.isEmpty else { return nil }
    description = String(decoding: members, as: UTF8.self)
  }
}

extension Span<UInt8> {
  /// Returns the key of a list member, or nil if the member is malformed (§3.3.1.3).
  fileprivate func traceStateKey(of member: Range<Int>) -> Range<Int>? {
    guard let equals = member.first(where: { self[$0] == UInt8(ascii: "=") }) else { return nil }
    let key = member.lowerBound..<equals
    let value = equals + 1..<member.upperBound
    guard (1...256).contains(key.count), (1...256).contains(value.count),
      let first = key.first, self[first].isTraceStateKeyStart, key.allSatisfy({ self[$0].isTraceStateKey }),
      value.allSatisfy({ (0x20...0x7E).contains(self[$0]) && self[$0] != UInt8(ascii: "=") })
    else { return nil }
    return key
  }

  fileprivate func areEqual(_ one: Range<Int>, _ other: Range<Int>) -> Bool {
    one.count == other.count && zip(one, other).allSatisfy { self[$0] == self[$1] }
  }
}

extension UInt8 {
  fileprivate var isTraceStateKeyStart: Bool {
    decimalDigit != nil || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(self)
  }

  fileprivate var isTraceStateKey: Bool {
    switch self {
    case UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "*"), UInt8(ascii: "/"), UInt8(ascii: "@"): true
    default: isTraceStateKeyStart
    }
  }
}
