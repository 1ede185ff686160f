import Bytes

/// The identifier of a request in logs, responses and error bodies.
public struct RequestID: Sendable, Hashable, CustomStringConvertible {
  enum Content: Sendable, Hashable {
    /// An identifier from this server: 128 bits, without allocations.
    case own(UInt64, UInt64)
    /// An identifier from a trusted proxy.
    case foreign(String)
  }

  let content: Content

  /// Creates the identifier that a trusted proxy sent. Returns nil unless it is 1 to 64 characters of `A`–`Z`, `a`–`z`,
  /// `0`–`9`, `.`, `_` and `-`, which are safe in a header field, in JSON and in a log.
  public init?(_ text: String) {
    guard (1...64).contains(text.utf8.count), text.utf8.allSatisfy(\.isSafeInRequestID) else { return nil }
    content = .foreign(text)
  }

  init(high: UInt64, low: UInt64) {
    content = .own(high, low)
  }

  /// 32 hexadecimal digits, or the text that the proxy sent.
  public var description: String {
    switch content {
    case .foreign(let text): text
    case .own: String(decoding: [UInt8](self), as: UTF8.self)
    }
  }
}

extension [UInt8] {
  /// Creates an array of the identifier's characters.
  public init(_ id: RequestID) {
    self = []
    reserveCapacity(32)
    append(id)
  }

  /// Appends the identifier's characters.
  public mutating func append(_ id: RequestID) {
    switch id.content {
    case .foreign(let text): append(contentsOf: text.utf8)
    case .own(let high, let low):
      append(hexadecimal: high)
      append(hexadecimal: low)
    }
  }
}

extension UInt8 {
  fileprivate var isSafeInRequestID: Bool {
    switch self {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
      true
    default: false
    }
  }
}

/// A generator of request identifiers without a lock or a system call. Each event loop has its own.
///
/// The upper 64 bits are random and identify the generator. The lower 64 bits are SplitMix64 (Steele, Lea, Flood 2014)
/// from a random start: a bijection of a counter, so no two are equal, and an ID does not reveal the number of
/// requests.
public struct RequestIDGenerator: Sendable {
  private let high: UInt64
  private var state: UInt64

  /// Creates a generator with a start value from the system's random number generator.
  public init() {
    var random = SystemRandomNumberGenerator()
    self.init(high: random.next(), start: random.next())
  }

  init(high: UInt64, start: UInt64) {
    self.high = high
    state = start
  }

  /// Returns an identifier that this generator has not returned before.
  public mutating func next() -> RequestID {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return RequestID(high: high, low: mixed ^ (mixed >> 31))
  }
}
