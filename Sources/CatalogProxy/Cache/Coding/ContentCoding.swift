/// How an answer's content is coded on its way to the caller (RFC 9110 §8.4.1).
public enum ContentCoding: Sendable, Equatable {
  /// As it is.
  case identity
  /// By gzip (RFC 1952).
  case gzip

  /// What a caller prefers by its `Accept-Encoding` (RFC 9110 §12.5.3). One line of it is enough: a caller who sends
  /// several gets what the first one says. Identity without the field, and where neither is wanted.
  ///
  /// Read in place. Browsers send five elements; a list that is far longer costs nothing and gets identity.
  public static func preferred(acceptEncoding value: Span<UInt8>) -> ContentCoding {
    guard value.count <= 1024 else { return .identity }
    var gzip: Int?
    var other: Int?
    var identity: Int?
    var scanner = FieldScanner()
    var elements = 0
    while !scanner.isAtEnd(in: value) {
      elements += 1
      guard elements <= 32 else { return .identity }
      scanner.skipWhitespace(in: value)
      let name = scanner.token(in: value)
      let weight = scanner.weight(in: value)
      if FieldText.isEqual(name, of: value, to: "gzip") || FieldText.isEqual(name, of: value, to: "x-gzip") {
        gzip = max(gzip ?? 0, weight)
      } else if FieldText.isEqual(name, of: value, to: "identity") {
        identity = weight
      } else if FieldText.isEqual(name, of: value, to: "*") {
        other = weight
      }
    }
    // Identity that is not named is acceptable, and less wanted than anything that is.
    let gzipWeight = gzip ?? other ?? 0
    return gzipWeight > 0 && gzipWeight >= identity ?? 0 ? .gzip : .identity
  }
}

extension FieldScanner {
  /// Passes the rest of an element with its comma: the weight in thousandths (RFC 9110 §12.4.2). What is malformed
  /// counts as not wanted.
  fileprivate mutating func weight(in bytes: Span<UInt8>) -> Int {
    var weight = 1000
    skipWhitespace(in: bytes)
    if take(";", in: bytes) {
      skipWhitespace(in: bytes)
      let name = token(in: bytes)
      weight = 0
      if FieldText.isEqual(name, of: bytes, to: "q"), take("=", in: bytes) {
        weight = Self.thousandths(token(in: bytes), of: bytes)
      }
    }
    return skip(past: ",", in: bytes) == .nothing ? weight : 0
  }

  /// `0`, `0.5`, `1.000`; 0 for anything else.
  private static func thousandths(_ range: Range<Int>, of bytes: Span<UInt8>) -> Int {
    guard (1...5).contains(range.count), range.count == 1 || bytes[range.lowerBound + 1] == UInt8(ascii: ".") else {
      return 0
    }
    var weight = 0
    var place = 1000
    for index in range where index != range.lowerBound + 1 {
      let digit = bytes[index] &- UInt8(ascii: "0")
      guard digit < 10 else { return 0 }
      weight += Int(digit) * place
      place /= 10
    }
    return weight <= 1000 ? weight : 0
  }
}
