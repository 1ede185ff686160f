import Glibc

/// IPv4 addresses in the dotted form.
enum IPv4 {
  /// Whether the text is four decimal numbers without leading zeros.
  static func isValid(_ text: String) -> Bool {
    var address = in_addr()
    return unsafe inet_pton(AF_INET, text, &address) == 1
  }
}

/// IPv6 addresses as they stand in a URL.
enum IPv6 {
  /// The address in the one form that browsers send; nil if the text is not an address.
  ///
  /// This is RFC 5952, except for IPv4-mapped addresses: browsers write them in hexadecimal (URL standard, host
  /// serializing), and `inet_ntop` does not.
  static func serialization(_ text: String) -> String? {
    var address = in6_addr()
    guard unsafe inet_pton(AF_INET6, text, &address) == 1 else { return nil }
    let bytes = unsafe withUnsafeBytes(of: address) { unsafe Array($0) }
    let pieces = stride(from: 0, to: 16, by: 2).map { UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]) }
    let zeros = longestZeros(pieces)
    guard zeros.count > 1 else { return joined(pieces[...]) }
    return joined(pieces[..<zeros.lowerBound]) + "::" + joined(pieces[zeros.upperBound...])
  }

  /// The first of the longest runs of zero pieces.
  private static func longestZeros(_ pieces: [UInt16]) -> Range<Int> {
    var longest = 0..<0
    var start = 0
    for index in pieces.indices {
      guard pieces[index] == 0 else {
        start = index + 1
        continue
      }
      if index + 1 - start > longest.count { longest = start..<(index + 1) }
    }
    return longest
  }

  private static func joined(_ pieces: ArraySlice<UInt16>) -> String {
    pieces.map { String($0, radix: 16) }.joined(separator: ":")
  }
}
