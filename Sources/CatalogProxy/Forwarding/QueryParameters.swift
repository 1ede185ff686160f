import Bytes

/// The parameters of a validated query: the key for the cache, and whether the response depends on a user.
///
/// The proxy forwards the query as received. The normal form is only a key. It is equal only for queries that certainly
/// mean the same to Apple, and different in case of doubt: a key that is too coarse would give a caller the response to
/// another request.
struct QueryParameters {
  /// The parameters in normal form, joined by `&`.
  let normalForm: [UInt8]
  /// Whether the query contains `relate=library` or `filter[identity]=personal`.
  private(set) var asksAboutUser = false

  /// Validates a query as received, without its question mark, and throws its defect.
  init(_ raw: Span<UInt8>, limits: TargetLimits) throws(TargetRefusal) {
    var buffer: [UInt8] = []
    buffer.reserveCapacity(raw.count + 16)
    var parameters: [Parameter] = []
    var isBeyondASCII = false
    var start = 0
    while start <= raw.count {
      guard parameters.count < limits.parameters else { throw .tooManyParameters }
      let parameter = try Parameter(at: &start, in: raw, to: &buffer, &isBeyondASCII)
      asksAboutUser = asksAboutUser || parameter.asksAboutUser(buffer)
      parameters.append(parameter)
    }
    guard !isBeyondASCII || Self.isUTF8(raw) else { throw .queryNotUTF8 }
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

  /// Returns whether the decoded query is UTF-8.
  private static func isUTF8(_ raw: Span<UInt8>) -> Bool {
    var decoded: [UInt8] = []
    decoded.reserveCapacity(raw.count)
    var index = 0
    while index < raw.count {
      let escape = raw[index] == UInt8(ascii: "%") ? raw.percentEncodedByte(at: index, before: raw.count) : nil
      decoded.append(escape ?? raw[index])
      index += escape == nil ? 1 : 3
    }
    return String(validating: decoded, as: UTF8.self) != nil
  }
}

/// One `name=value` of a query, as ranges of a buffer with the normal form.
private struct Parameter {
  let whole: Range<Int>
  let name: Range<Int>
  let value: Range<Int>
  /// Whether the name is not empty and consists of unreserved characters and brackets.
  let hasPlainName: Bool

  /// Appends the parameter at `start` to `buffer`, after an `&` if it is not the first. Moves `start` past the
  /// parameter and its `&`.
  ///
  /// The normal form (RFC 3986 §6.2.2) has plain unreserved characters, other escapes in capitals, and escapes for
  /// characters that a URI cannot contain. All else stays: `,` is not the same as `%2C` there, nor `+` the same as
  /// `%20`.
  init(
    at start: inout Int, in raw: Span<UInt8>, to buffer: inout [UInt8], _ isBeyondASCII: inout Bool
  ) throws(TargetRefusal) {
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
      let character = try Self.character(at: &start, in: raw)
      isBeyondASCII = isBeyondASCII || character.byte >= 0x80
      if equals == nil, !character.byte.isPlainInName { isPlain = false }
      buffer.append(character)
    }
    start += 1
    whole = first..<buffer.count
    name = first..<(equals ?? buffer.count)
    value = (equals.map { $0 + 1 } ?? buffer.count)..<buffer.count
    hasPlainName = isPlain && !name.isEmpty
  }

  /// Returns the validated character at `index`, and moves `index` past it.
  private static func character(at index: inout Int, in raw: Span<UInt8>) throws(TargetRefusal) -> QueryCharacter {
    let byte = raw[index]
    if byte == UInt8(ascii: "%") {
      guard let decoded = raw.percentEncodedByte(at: index, before: raw.count) else { throw .malformedEscape }
      guard decoded >= 0x20, decoded != 0x7F else { throw .controlByte }
      index += 3
      return QueryCharacter(byte: decoded, isEscaped: !decoded.isUnreservedInURI)
    }
    guard byte.isAllowedInQuery else {
      throw byte == UInt8(ascii: "#") ? .fragment : byte.isControlOrSpace ? .controlByte : .queryByte
    }
    index += 1
    return QueryCharacter(byte: byte, isEscaped: byte.isOutsideOfURI)
  }

  /// Returns whether the response depends on the user. In the normal form, the names have only one spelling.
  func asksAboutUser(_ buffer: [UInt8]) -> Bool {
    guard name.count >= 6 else { return false }
    let name = buffer[name]
    if name.elementsEqual("filter%5Bidentity%5D".utf8) { return lists("personal", in: buffer) }
    guard name.starts(with: "relate".utf8), name.count == 6 || name.dropFirst(6).starts(with: "%5B".utf8) else {
      return false
    }
    return lists("library", in: buffer)
  }

  /// Returns whether the value, a list separated by commas, contains this element, ignoring spaces. It reads the value
  /// in place, because a value may consist of commas only.
  private func lists(_ element: StaticString, in buffer: [UInt8]) -> Bool {
    let length = element.utf8CodeUnitCount
    /// The number of bytes of `element` that the current list element has matched; nil if it is different.
    var matched: Int? = 0
    var index = value.lowerBound
    while index < value.upperBound {
      var byte = buffer[index]
      index += 1
      if byte == UInt8(ascii: "%"), index + 1 < value.upperBound, buffer[index] == UInt8(ascii: "2") {
        // In the normal form, these two escapes have only one spelling.
        switch buffer[index + 1] {
        case UInt8(ascii: "C"): (byte, index) = (UInt8(ascii: ","), index + 2)
        case UInt8(ascii: "0"): (byte, index) = (UInt8(ascii: "+"), index + 2)
        default: break
        }
      }
      switch byte {
      case UInt8(ascii: "+"): continue
      case UInt8(ascii: ","):
        if matched == length { return true }
        matched = 0
      default:
        // Safe: `known` is below the literal's length.
        if let known = matched, known < length, unsafe byte == element.utf8Start[known] {
          matched = known + 1
        } else {
          matched = nil
        }
      }
    }
    return matched == length
  }
}

/// A character of a query, and its spelling in the normal form.
private struct QueryCharacter {
  let byte: UInt8
  let isEscaped: Bool
}

extension UInt8 {
  fileprivate var isPlainInName: Bool {
    isUnreservedInURI || self == UInt8(ascii: "[") || self == UInt8(ascii: "]")
  }
}

extension [UInt8] {
  fileprivate mutating func append(_ character: QueryCharacter) {
    guard character.isEscaped else { return append(character.byte) }
    append(percentEncoding: character.byte)
  }
}

/// Classes of bytes in a URI (RFC 3986).
extension UInt8 {
  /// Whether a query may contain the byte as it is: `pchar`, `/` and `?` (RFC 3986 §3.4), and ``[ ] \ ^ ` { | }``,
  /// which browsers send unencoded (WHATWG URL, query percent-encode set). The caller handles the percent sign.
  var isAllowedInQuery: Bool {
    switch self {
    case UInt8(ascii: "\""), UInt8(ascii: "#"), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "%"): false
    default: self > 0x20 && self < 0x7F
    }
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

  /// Whether the byte is a control character, a space or DEL.
  var isControlOrSpace: Bool { self <= 0x20 || self == 0x7F }
}
