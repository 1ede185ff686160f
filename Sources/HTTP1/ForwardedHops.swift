import Bytes

/// The addresses that a value of `Forwarded` (RFC 7239 §4) or `X-Forwarded-For` lists, read from its end. Each proxy
/// appends the address of its own peer, so the nearest hop comes first, and what a client invented comes last.
///
/// Each element is found and checked by its own bytes alone. Text to its left, for example an open quotation mark,
/// changes nothing: a client cannot change the meaning of a proxy's element by what it writes before that element.
/// Nothing is allocated, and only the requested elements are read.
public struct ForwardedHops: Sendable {
  /// Which field the value is of.
  public enum Field: Sendable, CaseIterable {
    /// `Forwarded`: `for=192.0.2.60;proto=https, for="[2001:db8::1]:4711"`.
    case forwarded
    /// `X-Forwarded-For`, which no standard defines: addresses, some with a port, IPv6 with brackets or without.
    case forwardedFor

    /// Its name, in lower case.
    public var name: StaticString {
      switch self {
      case .forwarded: "forwarded"
      case .forwardedFor: "x-forwarded-for"
      }
    }
  }

  private let field: Field
  /// What is left of the value; nil behind the first element.
  private var rest: Range<Int>?

  /// - Parameters:
  ///   - field: Which field it is.
  ///   - value: Where the value of one field line is. Of several lines, the last has the nearest hops.
  public init(_ field: Field, _ value: Range<Int>) {
    self.field = field
    rest = value
  }

  /// The text of the next hop's address, without port and brackets; nil at the beginning of the value.
  ///
  /// What looks like no address is an empty range: `unknown`, an obfuscated name (RFC 7239 §6.3), garbage. Otherwise it
  /// is for the caller to find out whether it is one. Empty elements are skipped (RFC 9110 §5.6.1.2).
  ///
  /// - Parameter bytes: The buffer that the value lies in.
  public mutating func next(in bytes: Span<UInt8>) -> Range<Int>? {
    while let rest {
      let comma = field == .forwarded ? bytes.lastUnquotedComma(in: rest) : bytes.lastComma(in: rest)
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
  fileprivate func lastComma(in range: Range<Int>) -> Int? {
    range.last { self[$0] == .comma }
  }

  /// The last comma outside of a quoted string, looked for from the end. A quotation mark met outside of a string ends
  /// one; within it, one begins it, unless a backslash escapes it (RFC 9110 §5.6.4).
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

  /// Whether an odd number of backslashes stands before `index`.
  private func isEscaped(_ index: Int, after start: Int) -> Bool {
    var first = index
    while first > start, self[first &- 1] == .backslash { first &-= 1 }
    return (index &- first) & 1 == 1
  }

  /// The value of the `for` of an element of `Forwarded`, without quotation marks. Nil if `for` is missing or repeated,
  /// if the value contains an escape, which no address needs, or if a quotation mark is unpaired.
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

  /// The first semicolon outside of a quoted string, or the end; nil if that is within one.
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

  /// The address of `node [ ":" node-port ]` (RFC 7239 §6), and of an IPv6 address that lacks its brackets, which cannot
  /// have a port then; nil if it is neither.
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

  /// `node-port`: digits, or an underscore and a name that says nothing.
  private func isNodePort(_ range: Range<Int>) -> Bool {
    guard !range.isEmpty else { return false }
    if self[range.lowerBound] == UInt8(ascii: "_") {
      return range.count > 1 && range.allSatisfy { ByteSet.token.contains(self[$0]) }
    }
    return range.count <= 5 && range.allSatisfy { self[$0].decimalDigit != nil }
  }
}
