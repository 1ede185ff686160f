import Bytes

/// The parameters of a validated query: the key for the cache.
///
/// The proxy forwards the query as received. The normal form is only a key. It is equal only for queries that certainly
/// mean the same to Apple, and different in case of doubt: a key that is too coarse would give a caller the response to
/// another request.
struct QueryParameters {
  /// The parameters in normal form, joined by `&`.
  let normalForm: [UInt8]
  /// Whether the query has characters that only need encoding: scripts send `"`, `<` and `>`, which browsers encode.
  let needsEncoding: Bool

  /// Validates a query as received, without its question mark, and throws its defect.
  init(_ raw: Span<UInt8>) throws(TargetDefect) {
    var buffer: [UInt8] = []
    buffer.reserveCapacity(raw.count + 16)
    var parameters: [Parameter] = []
    var findings = Findings()
    var start = 0
    while start <= raw.count {
      guard parameters.count < TargetLimits.parameters else { throw TargetDefect(.tooManyParameters) }
      parameters.append(try Parameter(at: &start, in: raw, to: &buffer, &findings))
    }
    if let escape = findings.firstBeyondASCII, !Self.isUTF8(raw) { throw TargetDefect(.queryNotUTF8, at: escape) }
    needsEncoding = findings.needsEncoding
    normalForm = Self.joined(parameters, buffer)
  }

  /// Joins the parameters, sorted by name. The order does not matter to Apple: no parameter depends on an earlier one.
  /// Parameters with the same name keep their order. The function does not sort a query with a semicolon, which was
  /// once a separator, or with characters in a name other than unreserved ones and brackets, because Apple has no such
  /// name.
  private static func joined(_ parameters: [Parameter], _ buffer: [UInt8]) -> [UInt8] {
    guard parameters.count > 1, parameters.allSatisfy(\.hasPlainName), !buffer.contains(UInt8(ascii: ";")) else {
      return buffer
    }
    let sorted = parameters.sorted { left, right in
      let (name, other) = (buffer[left.name], buffer[right.name])
      return name == other ? left.name.lowerBound < right.name.lowerBound : name.lexicographicallyPrecedes(other)
    }
    var output: [UInt8] = []
    output.reserveCapacity(buffer.count)
    for parameter in sorted {
      if !output.isEmpty { output.append(UInt8(ascii: "&")) }
      output.append(contentsOf: buffer[parameter.whole])
    }
    return output
  }

  private static func isUTF8(_ raw: Span<UInt8>) -> Bool {
    PercentEncoding.decode(raw).flatMap { String(validating: $0, as: UTF8.self) } != nil
  }

  /// Appends a validated query as Apple gets it: byte for byte, except for the characters that need encoding.
  func append(_ raw: Span<UInt8>, to output: inout [UInt8]) {
    guard needsEncoding else { return output.append(copying: raw) }
    for index in raw.indices {
      let byte = raw[index]
      if byte.onlyNeedsEncoding { output.append(percentEncoding: byte) } else { output.append(byte) }
    }
  }
}

/// What the characters of a query show.
private struct Findings {
  /// The first escape that is not an ASCII character's.
  var firstBeyondASCII: Range<Int>?
  var needsEncoding = false
}

/// One `name=value` of a query, as ranges of a buffer with the normal form.
private struct Parameter {
  let whole: Range<Int>
  let name: Range<Int>
  /// Whether the name is not empty and consists of unreserved characters and brackets.
  let hasPlainName: Bool

  /// Appends the parameter at `start` to `buffer`, after an `&` if it is not the first. Moves `start` past the
  /// parameter and its `&`.
  ///
  /// The normal form (RFC 3986 §6.2.2) has plain unreserved characters, other escapes in capitals, and escapes for
  /// characters that a URI cannot contain. All else stays: `,` is not the same as `%2C` there, nor `+` the same as
  /// `%20`.
  init(
    at start: inout Int, in raw: Span<UInt8>, to buffer: inout [UInt8], _ findings: inout Findings
  ) throws(TargetDefect) {
    if start > 0 { buffer.append(UInt8(ascii: "&")) }
    let first = buffer.count
    var equals: Int?
    var isPlain = true
    while start < raw.count, raw[start] != UInt8(ascii: "&") {
      if raw[start] == UInt8(ascii: "="), equals == nil {
        equals = buffer.count
        buffer.append(UInt8(ascii: "="))
        start += 1
        continue
      }
      let place = start
      let character = try Self.character(at: &start, in: raw)
      if character.byte >= 0x80, findings.firstBeyondASCII == nil { findings.firstBeyondASCII = place..<start }
      if character.isEncodedFirst { findings.needsEncoding = true }
      if equals == nil, !character.byte.isPlainInName { isPlain = false }
      if character.isEscaped { buffer.append(percentEncoding: character.byte) } else { buffer.append(character.byte) }
    }
    start += 1
    whole = first..<buffer.count
    name = first..<(equals ?? buffer.count)
    hasPlainName = isPlain && !name.isEmpty
  }

  /// Returns the validated character at `index`, and moves `index` past it.
  private static func character(at index: inout Int, in raw: Span<UInt8>) throws(TargetDefect) -> QueryCharacter {
    let (start, byte) = (index, try raw.character(at: &index))
    if index > start + 1 {
      guard byte >= 0x20, byte != 0x7F else { throw TargetDefect(.controlByte, at: start..<index) }
      return QueryCharacter(byte: byte, isEscaped: !byte.isUnreservedInURI)
    }
    if byte.onlyNeedsEncoding { return QueryCharacter(byte: byte, isEscaped: true, isEncodedFirst: true) }
    guard byte.isAllowedInQuery else {
      let refusal: TargetRefusal =
        byte == UInt8(ascii: "#") ? .fragment : byte.isControlOrSpace ? .controlByte : .queryByte
      throw TargetDefect(refusal, at: start..<index)
    }
    return QueryCharacter(byte: byte, isEscaped: byte.isOutsideOfURI)
  }
}

extension Span<UInt8> {
  /// Returns the byte at `index`, or the one that an escape there stands for, and moves `index` past it.
  func character(at index: inout Int) throws(TargetDefect) -> UInt8 {
    guard self[index] == UInt8(ascii: "%") else {
      index += 1
      return self[index - 1]
    }
    guard let decoded = percentEncodedByte(at: index, before: count) else {
      throw TargetDefect(.malformedEscape, at: index..<Swift.min(index + 3, count))
    }
    index += 3
    return decoded
  }
}

/// A character of a query, and its spelling in the normal form.
private struct QueryCharacter {
  let byte: UInt8
  let isEscaped: Bool
  /// Whether the server encodes the character before it sends it.
  var isEncodedFirst = false
}

/// Classes of bytes in a URI (RFC 3986).
extension UInt8 {
  fileprivate var isPlainInName: Bool {
    isUnreservedInURI || self == UInt8(ascii: "[") || self == UInt8(ascii: "]")
  }

  /// Whether a query may contain the byte as it is: `pchar`, `/` and `?` (RFC 3986 §3.4), and ``[ ] \ ^ ` { | }``,
  /// which browsers send unencoded (WHATWG URL, query percent-encode set). The caller handles the percent sign.
  var isAllowedInQuery: Bool {
    switch self {
    case UInt8(ascii: "\""), UInt8(ascii: "#"), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "%"): false
    default: self > 0x20 && self < 0x7F
    }
  }

  /// Whether the byte is one of `" < >`. A URI cannot contain them (RFC 3986 §2), and no parser gives them a meaning of
  /// their own, so the server encodes them as browsers do (WHATWG URL, query percent-encode set).
  var onlyNeedsEncoding: Bool {
    self == UInt8(ascii: "\"") || self == UInt8(ascii: "<") || self == UInt8(ascii: ">")
  }

  /// Whether the byte is one of ``[ ] \ ^ ` { | }``. A URI cannot contain them (RFC 3986 §2), so each means its escape.
  var isOutsideOfURI: Bool {
    switch self {
    case UInt8(ascii: "["), UInt8(ascii: "]"), UInt8(ascii: "\\"), UInt8(ascii: "^"), UInt8(ascii: "`"),
      UInt8(ascii: "{"), UInt8(ascii: "|"), UInt8(ascii: "}"):
      true
    default: false
    }
  }

  var isControlOrSpace: Bool { self <= 0x20 || self == 0x7F }
}
