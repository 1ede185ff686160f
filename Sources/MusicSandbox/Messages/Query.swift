import Bytes

/// The parameters of a query, decoded, in the order received.
struct Query: Sendable {
  static let maximumCount = 64
  /// The maximum length of a value beyond ASCII, in bytes. Comparing such text costs the square of its length.
  static let longestText = 256

  private(set) var parameters: [(name: String, value: String)] = []

  init() {}

  /// Parses a query. Throws Apple's error for a malformed escape or an unknown parameter.
  init(_ text: String?) throws(AppleError) {
    guard let text, !text.isEmpty else { return }
    for part in text.split(separator: "&", maxSplits: Self.maximumCount) {
      let halves = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard let name = PercentEncoding.text(halves[0], isOfForm: true),
        let value = halves.count == 2 ? PercentEncoding.text(halves[1], isOfForm: true) : ""
      else { throw .invalid(String(halves[0].prefix(64)), "The query is not percent-encoded UTF-8") }
      guard name.utf8.allSatisfy({ $0 < 0x80 }), Self.isKnown(name) else {
        throw .init(.unknownParameter, parameter: String(name.prefix(64)))
      }
      guard value.utf8.count <= Self.longestText || value.utf8.allSatisfy({ $0 < 0x80 }) else {
        throw .invalid(name, "A value beyond ASCII has at most \(Self.longestText) bytes")
      }
      parameters.append((name, value))
    }
  }

  /// Returns whether Apple documents a parameter, with or without a bracketed part, or it is the emulator's own. Like
  /// Apple, the emulator refuses any other with 40004.
  private static func isKnown(_ name: String) -> Bool {
    let plain = name.firstIndex(of: "[").map { name.hasSuffix("]") ? name[..<$0] : "" } ?? name[...]
    return TypeTable.builtIn.parameters.contains { $0.bytes.elementsEqual(plain.utf8) }
  }

  subscript(name: String) -> String? { parameters.last { $0.name == name }?.value }

  /// The language tag. Like Apple, the emulator ignores an empty one, and one in the form of a locale, such as `en_US`.
  var language: String? { self["l"].flatMap { $0.isEmpty || $0.contains("_") ? nil : $0 } }

  func list(_ name: String) -> [ByteString]? { self[name].map(Self.elements) }

  func values(_ name: String) -> [ByteString] {
    parameters.filter { $0.name == name }.flatMap { Self.elements($0.value) }
  }

  func bracketed(_ name: String) -> [(inner: String, value: String)] {
    parameters.compactMap { parameter in
      guard parameter.name.hasPrefix("\(name)["), parameter.name.hasSuffix("]") else { return nil }
      return (String(parameter.name.dropFirst(name.count + 1).dropLast()), parameter.value)
    }
  }

  static func elements(_ value: String) -> [ByteString] {
    value.utf8.split(separator: UInt8(ascii: ",")).map { ByteString(Array($0)) }
  }
}

struct Paging {
  let limit: Int
  let offset: Int

  /// Throws Apple's error for a limit outside of 1 to the maximum, or a value that is not a number.
  init(_ query: Query, _ sizes: PageSizes, offsetBelow bound: Int = .max) throws(AppleError) {
    limit = try Self.number(query, "limit", 1...sizes.most) ?? sizes.standard
    offset = try Self.number(query, "offset", 0...Int(Int32.max)) ?? 0
    guard offset < bound else { throw .invalid("offset", "offset must be less than \(bound)") }
  }

  /// Selects the first page of a part of the response; `limit[name]` sets its length.
  init(of name: ByteString, _ query: Query, _ sizes: PageSizes) throws(AppleError) {
    limit = try Self.number(query, "limit[\(name)]", 1...sizes.most) ?? sizes.standard
    offset = 0
  }

  private static func number(_ query: Query, _ name: String, _ range: ClosedRange<Int>) throws(AppleError) -> Int? {
    guard let text = query[name] else { return nil }
    guard let number = Int(text) else { throw .invalid(name, "Value must be an integer, but was: \(text.prefix(32))") }
    guard !range.contains(number) else { return number }
    let (word, bound) = number < range.lowerBound ? ("greater", range.lowerBound) : ("less", range.upperBound)
    throw .invalid(name, "Value must be an integer \(word) than or equal to \(bound), but was: \(number)")
  }

  func page<Element>(of list: [Element]) -> ArraySlice<Element> { list.dropFirst(offset).prefix(limit) }

  func nextOffset(count: Int) -> Int? {
    // Neither overflows: the offset has 31 bits, and a table bounds the limit.
    offset + limit < count ? offset + limit : nil
  }
}
