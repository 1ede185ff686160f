/// Makes request identifiers without a lock or a system call: each event loop has its own.
///
/// The upper 64 bits are random and name the generator. The lower are SplitMix64 (Steele, Lea, Flood 2014) from a
/// random start: a bijection of a counter, so no two are equal, and an ID does not reveal how many requests there are.
public struct RequestIDGenerator: Sendable {
  private let high: UInt64
  private var state: UInt64

  /// A generator that starts where the system's random numbers say.
  public init() {
    var random = SystemRandomNumberGenerator()
    self.init(high: random.next(), start: random.next())
  }

  init(high: UInt64, start: UInt64) {
    self.high = high
    state = start
  }

  /// An identifier that this generator has not made before.
  public mutating func next() -> RequestID {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return RequestID(high: high, low: mixed ^ (mixed >> 31))
  }
}
