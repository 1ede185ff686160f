/// A field line of a received head, as offsets into its bytes: 16 bytes in all.
public struct FieldLine: Sendable, Equatable {
  private let nameStart: UInt32
  private let nameEnd: UInt32
  private let valueStart: UInt32
  private let valueEnd: UInt32

  /// Keeps two ranges that lie within a head. Heads are bounded far below 4 GiB by ``HTTP1Limits``.
  init(name: Range<Int>, value: Range<Int>) {
    nameStart = UInt32(clamping: name.lowerBound)
    nameEnd = UInt32(clamping: name.upperBound)
    valueStart = UInt32(clamping: value.lowerBound)
    valueEnd = UInt32(clamping: value.upperBound)
  }

  /// The field name, a token.
  public var name: Range<Int> { Int(nameStart)..<Int(nameEnd) }

  /// The field value without the optional white space around it; may be empty.
  public var value: Range<Int> { Int(valueStart)..<Int(valueEnd) }
}
