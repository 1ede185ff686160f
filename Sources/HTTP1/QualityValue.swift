import Bytes

/// A weight in a list of preferences (RFC 9110 §12.4.2), in thousandths.
extension Span<UInt8> {
  /// The weight that the bytes in `range` spell: 500 for `0.5`. What is malformed is 0, so that it counts as not wanted.
  public func qualityValue(in range: Range<Int>) -> Int {
    guard (1...5).contains(range.count), range.count == 1 || self[range.lowerBound + 1] == UInt8(ascii: ".") else {
      return 0
    }
    var weight = 0
    var place = 1000
    for index in range where index != range.lowerBound + 1 {
      guard let digit = self[index].decimalDigit else { return 0 }
      weight += Int(digit) * place
      place /= 10
    }
    return weight <= 1000 ? weight : 0
  }
}
