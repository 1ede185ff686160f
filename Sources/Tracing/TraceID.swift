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
