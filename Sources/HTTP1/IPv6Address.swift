/// The text form of an IPv6 address as a URI has it (`IPv6address`, RFC 3986 §3.2.2).
enum IPv6Address {
  /// Whether the bytes in `range` are one: groups of one to four hexadecimal digits, eight of them or fewer and one
  /// `::`, the last two perhaps as an IPv4 address.
  static func isValid(_ range: Range<Int>, in bytes: Span<UInt8>) -> Bool {
    var groups = 0
    var isCompressed = false
    var index = range.lowerBound
    if bytes.hasColon(at: index, before: range.upperBound) {
      // A leading colon is half of a "::", which the loop then meets as an empty group.
      guard bytes.hasColon(at: index &+ 1, before: range.upperBound) else { return false }
      isCompressed = true
      index &+= 2
      if index == range.upperBound { return true }
    }
    while true {
      let end = bytes.groupEnd(from: index, before: range.upperBound)
      if end < range.upperBound, bytes[end] == .period {
        guard isIPv4(index..<range.upperBound, in: bytes) else { return false }
        groups &+= 2
        break
      }
      guard 1...4 ~= end &- index else { return false }
      groups &+= 1
      if end == range.upperBound { break }
      guard bytes[end] == .colon else { return false }
      index = end &+ 1
      if bytes.hasColon(at: index, before: range.upperBound) {
        guard !isCompressed else { return false }
        isCompressed = true
        index &+= 1
        if index == range.upperBound { break }
      }
    }
    // "::" stands for at least one group.
    return isCompressed ? groups <= 7 : groups == 8
  }

  /// Whether the bytes in `range` are four decimal numbers up to 255, without leading zeros (`IPv4address`).
  private static func isIPv4(_ range: Range<Int>, in bytes: Span<UInt8>) -> Bool {
    var index = range.lowerBound
    for part in 1...4 {
      let end = part == 4 ? range.upperBound : bytes.firstIndex(of: .period, in: index..<range.upperBound)
      guard let end, 1...3 ~= end &- index, let value = bytes.decimal(in: index..<end), value <= 255 else {
        return false
      }
      guard end &- index == 1 || bytes[index] != .zero else { return false }
      index = min(end &+ 1, range.upperBound)
    }
    return true
  }
}

extension Span<UInt8> {
  fileprivate func hasColon(at index: Int, before end: Int) -> Bool {
    index < end && self[index] == .colon
  }

  /// The end of the hexadecimal digits from `start` on.
  fileprivate func groupEnd(from start: Int, before end: Int) -> Int {
    var index = start
    while index < end, self[index].hexadecimalDigit != nil { index &+= 1 }
    return index
  }
}
