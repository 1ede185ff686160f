import Bytes

/// The addresses in a value of `Forwarded` (RFC 7239 §4) or `X-Forwarded-For`, read from the end. Each proxy appends
/// the address of its own peer, so the nearest hop comes first, and addresses that a client invented come last.
///
/// Each element is found and checked by its own bytes only. Text to its left, such as an open quotation mark, changes
/// nothing, so a client cannot change the meaning of the elements that proxies append. The iterator allocates nothing.
public struct ForwardedHops: Sendable {
  /// The field that the value belongs to.
  public enum Field: String, Sendable, CaseIterable {
    /// `X-Forwarded-For`, which no standard defines: addresses, some with a port, IPv6 with brackets or without.
    case forwardedFor = "x-forwarded-for"
    /// `Forwarded`: `for=192.0.2.60;proto=https, for="[2001:db8::1]:4711"`.
    case forwarded

    /// The field name in lower case.
    public var name: StaticString { self == .forwarded ? "forwarded" : "x-forwarded-for" }
  }

  private let field: Field
  /// The unread part of the value; nil after the first element of the value.
  private var rest: Range<Int>?

  /// Creates an iterator over one field line's value. If there are several lines, the last has the nearest hops.
  public init(_ field: Field, _ value: Range<Int>) { (self.field, rest) = (field, value) }

  /// Returns the text of the next hop's address, without port and brackets, or nil at the start of the value. The range
  /// is empty without an address: `unknown`, an obfuscated name (RFC 7239 §6.3), or garbage. The caller must still
  /// check that the text is an address. Empty elements are skipped (RFC 9110 §5.6.1.2).
  public mutating func next(in bytes: Span<UInt8>) -> Range<Int>? {
    while let rest {
      let comma = field == .forwarded ? bytes.lastUnquotedComma(in: rest) : rest.last { bytes[$0] == .comma }
      self.rest = comma.map { rest.lowerBound..<$0 }
      let element = bytes.trimmingWhitespace((comma.map { $0 &+ 1 } ?? rest.lowerBound)..<rest.upperBound)
      guard !element.isEmpty else { continue }
      let node = field == .forwarded ? bytes.forwardedFor(in: element) : element
      return node.flatMap { bytes.address(ofNode: $0) } ?? element.lowerBound..<element.lowerBound
    }
    return nil
  }
}

extension Span<UInt8> {
  /// Returns the last comma outside of a quoted string, searched from the end. A quotation mark outside of a string is
  /// its end. Inside, it is the start, unless a backslash escapes it (RFC 9110 §5.6.4).
  fileprivate func lastUnquotedComma(in range: Range<Int>) -> Int? {
    var isQuoted = false
    for index in range.reversed() {
      switch self[index] {
      case .comma where !isQuoted: return index
      case .doubleQuote where !isQuoted: isQuoted = true
      case .doubleQuote where !isEscaped(index, after: range.lowerBound): isQuoted = false
      default: break
      }
    }
    return nil
  }

  /// Returns whether an odd number of backslashes precedes `index`.
  private func isEscaped(_ index: Int, after start: Int) -> Bool {
    var first = index
    while first > start, self[first &- 1] == .backslash { first &-= 1 }
    return (index &- first) & 1 == 1
  }

  /// Returns the value of `for` in an element of `Forwarded`, without quotation marks. Returns nil if `for` is missing
  /// or repeated, if a quotation mark is unpaired, or if the value contains an escape, which no address needs.
  fileprivate func forwardedFor(in element: Range<Int>) -> Range<Int>? {
    var found: Range<Int>?
    var rest = element
    while true {
      guard let end = pairEnd(in: rest) else { return nil }
      let pair = trimmingWhitespace(rest.lowerBound..<end)
      if let sign = firstIndex(of: .equalsSign, in: pair), equalsIgnoringCase(pair.lowerBound..<sign, "for") {
        guard found == nil, let value = unquoted(sign &+ 1..<pair.upperBound) else { return nil }
        found = value
      }
      guard end < rest.upperBound else { return found }
      rest = end &+ 1..<rest.upperBound
    }
  }

  /// Returns the first semicolon outside of a quoted string, or the end. Returns nil if a quotation mark is unpaired.
  private func pairEnd(in range: Range<Int>) -> Int? {
    var isQuoted = false
    for index in range {
      switch self[index] {
      case .semicolon where !isQuoted: return index
      case .doubleQuote where !isQuoted: isQuoted = true
      case .doubleQuote where !isEscaped(index, after: range.lowerBound): isQuoted = false
      default: break
      }
    }
    return isQuoted ? nil : range.upperBound
  }

  private func unquoted(_ range: Range<Int>) -> Range<Int>? {
    guard !range.isEmpty, self[range.lowerBound] == .doubleQuote else { return range }
    guard range.count >= 2, self[range.upperBound &- 1] == .doubleQuote else { return nil }
    let value = range.lowerBound &+ 1..<range.upperBound &- 1
    return value.contains { self[$0] == .doubleQuote || self[$0] == .backslash } ? nil : value
  }

  /// Returns the address of `node [ ":" node-port ]` (RFC 7239 §6), or of an IPv6 address without brackets and port.
  fileprivate func address(ofNode node: Range<Int>) -> Range<Int>? {
    guard let colon = firstIndex(of: .colon, in: node) else { return node }
    if !node.isEmpty, self[node.lowerBound] == .leftBracket {
      guard let bracket = firstIndex(of: .rightBracket, in: node) else { return nil }
      let address = node.lowerBound &+ 1..<bracket
      if bracket &+ 1 == node.upperBound { return address }
      return self[bracket &+ 1] == .colon && isNodePort(bracket &+ 2..<node.upperBound) ? address : nil
    }
    let isIPv6 = firstIndex(of: .colon, in: colon &+ 1..<node.upperBound) != nil
    if isIPv6 { return node }
    return isNodePort(colon &+ 1..<node.upperBound) ? node.lowerBound..<colon : nil
  }

  /// Returns whether the range is a `node-port`: digits, or an underscore and an obfuscated name.
  private func isNodePort(_ range: Range<Int>) -> Bool {
    guard let first = range.first else { return false }
    if self[first] == UInt8(ascii: "_") { return range.count > 1 && isToken(range) }
    return range.count <= 5 && range.allSatisfy { self[$0].decimalDigit != nil }
  }
}
