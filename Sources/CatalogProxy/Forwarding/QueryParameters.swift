import Bytes

/// The parameters of a validated query, which the proxy forwards as received. Their normal form is only a key for the cache:
/// equal for queries that certainly mean the same to Apple, and different in case of doubt.
struct QueryParameters {
  let normalForm: [UInt8]
  /// Whether the query has characters that only need encoding: scripts send `"`, `<` and `>`, which browsers encode.
  let needsEncoding: Bool

  /// Validates a query as received, without its question mark, and throws its defect.
  init(_ raw: Span<UInt8>) throws(TargetDefect) {
    var buffer: [UInt8] = []
    buffer.reserveCapacity(raw.count + 16)
    var parameters: [Parameter] = []
    var firstBeyondASCII: Range<Int>?
    var needsEncoding = false
    var start = 0
    while start <= raw.count {
      guard parameters.count < TargetLimits.parameters else { throw TargetDefect(.tooManyParameters) }
      if start > 0 { buffer.append(UInt8(ascii: "&")) }
      var parameter = Parameter(start: buffer.count)
      while start < raw.count, raw[start] != UInt8(ascii: "&") {
        if raw[start] == UInt8(ascii: "="), parameter.equals == nil { parameter.equals = buffer.count }
        let first = start
        let byte = try Self.character(at: &start, in: raw)
        if byte >= 0x80, firstBeyondASCII == nil { firstBeyondASCII = first..<start }
        if parameter.equals == nil, !byte.isUnreservedInURI, byte != UInt8(ascii: "["), byte != UInt8(ascii: "]") {
          parameter.hasPlainName = false
        }
        let isEscape = start > first + 1
        if !isEscape, byte.onlyNeedsEncoding { needsEncoding = true }
        if isEscape ? byte.isUnreservedInURI : !byte.isOutsideOfURI {
          buffer.append(byte)
        } else {
          buffer.append(percentEncoding: byte)
        }
      }
      start += 1
      parameter.end = buffer.count
      parameters.append(parameter)
    }
    if let escape = firstBeyondASCII, !Self.isUTF8(raw) { throw TargetDefect(.queryNotUTF8, at: escape) }
    self.needsEncoding = needsEncoding
    normalForm = Self.joined(parameters, buffer)
  }

  private static func character(at index: inout Int, in raw: Span<UInt8>) throws(TargetDefect) -> UInt8 {
    let (start, byte) = (index, try raw.character(at: &index))
    let refusal: TargetRefusal
    switch byte {
    case _ where index > start + 1:
      if !byte.isControl { return byte }
      refusal = .controlByte
    case UInt8(ascii: "#"): refusal = .fragment
    case _ where byte.isControlOrSpace: refusal = .controlByte
    case 0x80...: refusal = .queryByte
    default: return byte
    }
    throw TargetDefect(refusal, at: start..<index)
  }

  /// Joins the parameters, sorted by name: no parameter of Apple's depends on an earlier one. Those with the same name keep
  /// their order. A query with a semicolon, which was once a separator, or a name that Apple cannot have, stays unsorted.
  private static func joined(_ parameters: [Parameter], _ buffer: [UInt8]) -> [UInt8] {
    guard parameters.count > 1, parameters.allSatisfy({ $0.hasPlainName && !$0.name.isEmpty }),
      !buffer.contains(UInt8(ascii: ";"))
    else { return buffer }
    let sorted = parameters.sorted { left, right in
      let (name, other) = (buffer[left.name], buffer[right.name])
      return name == other ? left.start < right.start : name.lexicographicallyPrecedes(other)
    }
    var output: [UInt8] = []
    output.reserveCapacity(buffer.count)
    for parameter in sorted {
      if !output.isEmpty { output.append(UInt8(ascii: "&")) }
      output.append(contentsOf: buffer[parameter.start..<parameter.end])
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

/// One `name=value` of a query, as places in a buffer with the normal form.
///
/// The normal form (RFC 3986 §6.2.2) has plain unreserved characters, other escapes in capitals, and escapes for
/// characters that a URI cannot contain. All else stays: `,` is not the same as `%2C` there, nor `+` the same as `%20`.
private struct Parameter {
  let start: Int
  var equals: Int?
  var end = 0
  var hasPlainName = true

  var name: Range<Int> { start..<(equals ?? end) }
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

extension UInt8 {
  /// Whether the byte is one of `" < >`. A URI cannot contain them (RFC 3986 §2), and no parser gives them a meaning of
  /// their own, so the server encodes them as browsers do (WHATWG URL, query percent-encode set).
  var onlyNeedsEncoding: Bool { self == UInt8(ascii: "\"") || self == UInt8(ascii: "<") || self == UInt8(ascii: ">") }

  /// Whether the byte is one of `" < >`, or of ``[ ] \ ^ ` { | }``, which browsers send unencoded (WHATWG URL, query
  /// percent-encode set). A URI cannot contain them (RFC 3986 §2), so each means its escape.
  var isOutsideOfURI: Bool {
    switch self {
    case _ where onlyNeedsEncoding: true
    case UInt8(ascii: "["), UInt8(ascii: "]"), UInt8(ascii: "\\"), UInt8(ascii: "^"), UInt8(ascii: "`"),
      UInt8(ascii: "{"), UInt8(ascii: "|"), UInt8(ascii: "}"):
      true
    default: false
    }
  }

  var isControlOrSpace: Bool { self <= 0x20 || self == 0x7F }
}
