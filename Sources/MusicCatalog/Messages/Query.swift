import Bytes

/// The parameters of a query, decoded, in the order received.
package struct Query: Sendable {
  /// The maximum number of parameters that are parsed.
  static let maximumCount = 64

  /// The maximum length of a value beyond ASCII, in bytes. Comparing such text costs the square of its length.
  static let longestText = 256

  private(set) var parameters: [(name: String, value: String)] = []

  /// Creates a query without parameters.
  init() {}

  /// Parses a query. Throws Apple's error for a malformed escape or an unknown parameter.
  package init(_ text: String?) throws(AppleError) {
    guard let text, !text.isEmpty else { return }
    for part in text.split(separator: "&", maxSplits: Self.maximumCount) {
      let halves = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard let name = FormEncoding.decode(halves[0], plusIsSpace: true),
        let value = halves.count == 2 ? FormEncoding.decode(halves[1], plusIsSpace: true) : ""
      else {
        throw .invalidParameter(String(halves[0].prefix(64)), "The query is not percent-encoded UTF-8")
      }
      guard name.utf8.allSatisfy({ $0 < 0x80 }), Self.isKnown(name) else {
        throw .unknownParameter(String(name.prefix(64)))
      }
      guard value.utf8.count <= Self.longestText || value.utf8.allSatisfy({ $0 < 0x80 }) else {
        throw .invalidParameter(name, "A value beyond ASCII has at most \(Self.longestText) bytes")
      }
      parameters.append((name, value))
    }
  }

  /// Returns the value of a parameter, the last one if it is repeated; nil if the parameter is absent.
  subscript(name: String) -> String? {
    parameters.last { $0.name == name }?.value
  }

  /// Returns the elements of a comma-separated value, without empty ones; nil if the parameter is absent.
  func list(_ name: String) -> [ByteString]? { self[name].map(Self.elements) }

  /// Returns the elements of all values of a parameter.
  func values(_ name: String) -> [ByteString] {
    parameters.filter { $0.name == name }.flatMap { Self.elements($0.value) }
  }

  /// Returns the parameters `name[inner]` with the text in the brackets.
  package func bracketed(_ name: String) -> [(inner: String, value: String)] {
    parameters.compactMap { parameter in
      guard parameter.name.hasPrefix("\(name)["), parameter.name.hasSuffix("]") else { return nil }
      return (String(parameter.name.dropFirst(name.count + 1).dropLast()), parameter.value)
    }
  }

  /// Returns the elements of a comma-separated value, without empty ones.
  static func elements(_ value: String) -> [ByteString] {
    value.utf8.split(separator: UInt8(ascii: ",")).map { ByteString(Array($0)) }
  }

  /// Returns whether Apple documents a parameter, with or without a bracketed part, or it is the emulator's own. Like
  /// Apple, the emulator refuses any other with 40004.
  private static func isKnown(_ name: String) -> Bool {
    let plain = name.firstIndex(of: "[").map { name.hasSuffix("]") ? name[..<$0] : "" } ?? name[...]
    return TypeTable.builtIn.parameters.contains { $0.bytes.elementsEqual(plain.utf8) }
  }
}

/// Percent-encoding (RFC 3986 §2.1), and the plus sign for a space as in forms.
package enum FormEncoding {
  /// Returns the decoded text; nil if an escape is malformed or the result is not UTF-8.
  package static func decode(_ text: some StringProtocol, plusIsSpace: Bool = false) -> String? {
    let text = text.utf8.map { plusIsSpace && $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 }
    return PercentEncoding.decode(text.span).flatMap { String(validating: $0, as: UTF8.self) }
  }

  /// Encodes the value of a query: unreserved characters and commas stay, and a space becomes a plus.
  static func encodeQueryValue(_ text: String) -> String {
    var value: [UInt8] = []
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: " "): value.append(UInt8(ascii: "+"))
      case UInt8(ascii: ","): value.append(byte)
      case _ where byte.isUnreservedInURI: value.append(byte)
      default: value.append(percentEncoding: byte)
      }
    }
    return String(decoding: value, as: UTF8.self)
  }
}
