/// The parameters of a query, decoded, in the order received.
struct Query: Sendable {
  /// Most parameters that are read.
  static let maximumCount = 64

  /// Longest value beyond ASCII in bytes: comparing such text costs the square of its length.
  static let longestText = 256

  private(set) var parameters: [(name: String, value: String)] = []

  /// No parameters.
  init() {}

  /// Throws what Apple's API would answer: to a malformed escape, and to parameters that it does not know.
  init(_ text: String?) throws(AppleError) {
    guard let text, !text.isEmpty else { return }
    guard text.utf8.allSatisfy({ $0 < 0x80 }) else {
      throw .invalidParameter("", "A query is ASCII; anything else is percent-encoded")
    }
    for part in text.split(separator: "&", maxSplits: Self.maximumCount) {
      let halves = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard let name = PercentCoding.decode(halves[0], plusIsSpace: true),
        let value = halves.count == 2 ? PercentCoding.decode(halves[1], plusIsSpace: true) : ""
      else { throw .invalidParameter(String(halves[0]), "The query is not percent-encoded UTF-8") }
      guard value.utf8.count <= Self.longestText || value.utf8.allSatisfy({ $0 < 0x80 }) else {
        throw .invalidParameter(name, "A value beyond ASCII has at most \(Self.longestText) bytes")
      }
      guard name.utf8.allSatisfy({ $0 < 0x80 }), Self.isKnown(name) else { throw .unknownParameter(name) }
      parameters.append((name, value))
    }
  }

  /// The first value of a parameter; nil if it is not there.
  subscript(name: String) -> String? {
    parameters.first { $0.name == name }?.value
  }

  /// A comma-separated value, without empty elements; nil if the parameter is not there.
  func list(_ name: String) -> [String]? {
    self[name].map { $0.split(separator: ",").map(String.init) }
  }

  /// The parameters `name[something]`, with what stands in the brackets.
  func bracketed(_ name: String) -> [(inner: String, value: String)] {
    parameters.compactMap { parameter in
      guard parameter.name.hasPrefix("\(name)["), parameter.name.hasSuffix("]") else { return nil }
      return (String(parameter.name.dropFirst(name.count + 1).dropLast()), parameter.value)
    }
  }

  /// What Apple documents, with or without a bracketed part, and the emulator's own. Anything else is refused, as
  /// Apple refuses it with 40004.
  private static let known: Set<String> = [
    "acceptLanguage", "chart", "extend", "fields", "filter", "genre", "ids", "identity", "include", "kinds", "l",
    "limit",
    "offset", "omit", "relate", "restrict", "sandbox", "sort", "term", "types", "views", "with",
  ]

  private static func isKnown(_ name: String) -> Bool {
    guard let bracket = name.firstIndex(of: "[") else { return known.contains(name) }
    return name.hasSuffix("]") && known.contains(String(name[..<bracket]))
  }
}

/// Percent-encoding (RFC 3986 §2.1), and the plus sign for a space as forms have it.
enum PercentCoding {
  /// The text, or nil if an escape is malformed or the result is not UTF-8.
  static func decode(_ text: some StringProtocol, plusIsSpace: Bool = false) -> String? {
    var bytes: [UInt8] = []
    var rest = text.utf8[...]
    while let byte = rest.popFirst() {
      switch byte {
      case UInt8(ascii: "+") where plusIsSpace: bytes.append(UInt8(ascii: " "))
      case UInt8(ascii: "%"):
        guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit) else { return nil }
        bytes.append(high << 4 | low)
      default: bytes.append(byte)
      }
    }
    return String(validating: bytes, as: UTF8.self)
  }

  /// The text as a value of a query: what is unreserved stays (RFC 3986 §2.3), as do commas; a space becomes a plus.
  static func encodeQueryValue(_ text: String) -> String {
    var result = ""
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: " "): result += "+"
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "~"), UInt8(ascii: ","):
        result.unicodeScalars.append(Unicode.Scalar(byte))
      default:
        let digits = String(byte, radix: 16, uppercase: true)
        result += digits.utf8.count == 1 ? "%0\(digits)" : "%\(digits)"
      }
    }
    return result
  }

  private static func digit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}
