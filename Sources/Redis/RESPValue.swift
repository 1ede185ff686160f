import Bytes

/// A value of the Redis serialization protocol (RESP 2 and 3). Types that no command of the server gets are malformed.
/// Simple and bulk strings are ``text(_:)``; a map is ``array(_:)``, with keys and values in turn.
public enum RESPValue: Sendable, Equatable {
  case null
  case integer(Int64)
  case text([UInt8])
  /// An error with its text, such as `NOAUTH Authentication required.`
  case error([UInt8])
  case array([RESPValue])
  /// A message that answers no command, such as one of a channel.
  case push([RESPValue])

  /// The bytes of a string; nil for other values.
  package var bytes: [UInt8]? { if case .text(let bytes) = self { bytes } else { nil } }
  /// The elements of an array; nil for other values.
  package var elements: [RESPValue]? { if case .array(let elements) = self { elements } else { nil } }
  /// The number of an integer; nil for other values.
  package var number: Int64? { if case .integer(let number) = self { number } else { nil } }
}

/// The bounds of what a server of Redis may send.
public struct RESPLimits: Sendable {
  /// The most bytes of one string: 1.25 MiB. The largest is a stored response: 1 MiB of content, two header sections.
  public var string = 5 << 18
  /// The most bytes of a line, such as an error or a number: 4 KiB.
  public var line = 4096
  /// The most values in one reply, nested ones included: 1,024. The longest reply is that to HELLO, with about 20.
  public var values = 1024
  /// The deepest nesting of arrays: 8.
  public var depth = 8
  /// The most bytes of all strings in one reply: 2 MiB. They are not part of the memory budget.
  public var total = 2 << 20

  /// Creates the default bounds.
  public init() {}
}

/// What is wrong with bytes that are no reply.
public enum RESPError: Error, Sendable, Equatable, CustomStringConvertible {
  case malformed
  case tooLarge

  /// One sentence for the operator.
  public var description: String {
    switch self {
    case .malformed: "It sent bytes that are no reply of Redis."
    case .tooLarge: "It sent a reply that exceeds the server's limits."
    }
  }
}

/// A parser of replies in pieces. It keeps the values of incomplete arrays, so it reads each byte about once.
public struct RESPParser: Sendable {
  private struct Frame {
    let isPush: Bool
    var left: Int
    var values: [RESPValue] = []
  }

  private let limits: RESPLimits
  private var stack: [Frame] = []
  /// What the present reply has of the values and bytes of strings that it may have.
  private var values = 0
  private var total = 0
  /// The length of a string whose content has not arrived.
  private var string: Int?

  /// Creates a parser at the start of a value.
  public init(_ limits: RESPLimits = RESPLimits()) { self.limits = limits }

  /// Whether the parser is between two values.
  public var isAtStart: Bool { stack.isEmpty && string == nil }

  /// Parses the next whole value.
  ///
  /// - Parameter position: Where to begin. It moves behind what the parser needs no more; the next call begins there.
  /// - Returns: The value, or nil if more bytes are necessary.
  public mutating func next(in bytes: Span<UInt8>, from position: inout Int) throws(RESPError) -> RESPValue? {
    while true {
      guard let value = try scalar(in: bytes, from: &position) else { return nil }
      if let whole = complete(value) {
        values = 0
        total = 0
        return whole
      }
    }
  }

  private enum Token {
    /// A value without parts.
    case value(RESPValue)
    /// The beginning of an array.
    case opened
  }

  private mutating func scalar(in bytes: Span<UInt8>, from position: inout Int) throws(RESPError) -> Token? {
    if string == nil {
      guard let line = try line(in: bytes, from: position) else { return nil }
      position = line.upperBound + 2
      if let token = try token(bytes, line) { return token }
    }
    guard let length = string else { throw .malformed }
    guard bytes.count - position >= length + 2 else { return nil }
    let end = position + length
    guard bytes[end] == UInt8(ascii: "\r"), bytes[end + 1] == UInt8(ascii: "\n") else { throw .malformed }
    let content = Self.copy(bytes, position..<end)
    position = end + 2
    string = nil
    return .value(.text(content))
  }

  /// Interprets a line. Returns nil if the content of a string follows.
  private mutating func token(_ bytes: Span<UInt8>, _ line: Range<Int>) throws(RESPError) -> Token? {
    guard let type = line.first.map({ bytes[$0] }) else { throw .malformed }
    values += 1
    guard values <= limits.values else { throw .tooLarge }
    let rest = line.lowerBound + 1..<line.upperBound
    switch type {
    case UInt8(ascii: "+"): return .value(.text(Self.copy(bytes, rest)))
    case UInt8(ascii: "-"): return .value(.error(Self.copy(bytes, rest)))
    case UInt8(ascii: ":"): return .value(.integer(try Self.number(bytes, rest)))
    case UInt8(ascii: "_"): return .value(.null)
    case UInt8(ascii: "$"):
      let length = try Self.number(bytes, rest)
      if length == -1 { return .value(.null) }
      guard length >= 0 else { throw .malformed }
      guard length <= limits.string, total + Int(length) <= limits.total else { throw .tooLarge }
      total += Int(length)
      string = Int(length)
      return nil
    case UInt8(ascii: "*"): return try open(try Self.number(bytes, rest))
    case UInt8(ascii: "%"): return try open(try Self.number(bytes, rest), each: 2)
    case UInt8(ascii: ">"):
      guard stack.isEmpty else { throw .malformed }
      return try open(try Self.number(bytes, rest), isPush: true)
    default: throw .malformed
    }
  }

  private mutating func open(_ count: Int64, each: Int64 = 1, isPush: Bool = false) throws(RESPError) -> Token {
    if count == -1 { return .value(.null) }
    guard count >= 0 else { throw .malformed }
    guard count <= limits.values, stack.count < limits.depth else { throw .tooLarge }
    stack.append(Frame(isPush: isPush, left: Int(count * each)))
    return .opened
  }

  /// Adds a value to the innermost array, and closes what is complete. Returns the outermost value if that is complete.
  private mutating func complete(_ token: Token) -> RESPValue? {
    var finished: RESPValue? = if case .value(let value) = token { value } else { nil }
    while true {
      if let value = finished {
        guard !stack.isEmpty else { return value }
        stack[stack.count - 1].values.append(value)
        stack[stack.count - 1].left -= 1
      }
      guard let frame = stack.last, frame.left == 0 else { return nil }
      stack.removeLast()
      finished = frame.isPush ? .push(frame.values) : .array(frame.values)
    }
  }

  /// Returns the next line without its end; nil if it is incomplete.
  private func line(in bytes: Span<UInt8>, from position: Int) throws(RESPError) -> Range<Int>? {
    let most = min(bytes.count, position + limits.line + 2)
    let end = (position..<most).first { bytes[$0] == UInt8(ascii: "\r") } ?? most
    guard end - position <= limits.line else { throw .tooLarge }
    guard end + 1 < bytes.count else { return nil }
    guard bytes[end + 1] == UInt8(ascii: "\n") else { throw .malformed }
    return position..<end
  }

  private static func number(_ bytes: Span<UInt8>, _ range: Range<Int>) throws(RESPError) -> Int64 {
    guard (1...20).contains(range.count) else { throw .malformed }
    let isNegative = bytes[range.lowerBound] == UInt8(ascii: "-")
    let hasSign = isNegative || bytes[range.lowerBound] == UInt8(ascii: "+")
    var number: Int64 = 0
    guard range.count > (hasSign ? 1 : 0) else { throw .malformed }
    for index in range.dropFirst(hasSign ? 1 : 0) {
      guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(bytes[index]) else { throw .malformed }
      let (product, overflow) = number.multipliedReportingOverflow(by: 10)
      let (sum, carry) = product.addingReportingOverflow(Int64(bytes[index] - UInt8(ascii: "0")))
      guard !overflow, !carry else { throw .malformed }
      number = sum
    }
    return isNegative ? -number : number
  }

  private static func copy(_ bytes: Span<UInt8>, _ range: Range<Int>) -> [UInt8] {
    var copy: [UInt8] = []
    copy.append(copying: bytes.extracting(range))
    return copy
  }
}
