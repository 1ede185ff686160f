import Bytes

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
