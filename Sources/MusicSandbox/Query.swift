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

  /// Whether Apple documents a parameter, with or without brackets. Others get 40004, as from Apple.
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

/// The parts of each resource that a request selects: `include`, `includeOnly`, `relate`, `extend`, `views`, `fields`.
/// Like Apple, the emulator ignores names that a type does not have.
struct ResourceSelection {
  typealias Shown = (relation: Relation, isWhole: Bool)
  private typealias Names = (parameter: String, type: ByteString?, names: [ByteString])

  /// The depth from which resources show no relationships: albums include songs, which include albums, and so on.
  private static let maximumDepth = 2
  private static let personalAttributes: [ByteString] = ["inFavorites", "inLibrary"]

  let views: [ByteString]
  /// Whether resources show only included relationships, as in searches and charts.
  var isBare: Bool
  /// Whether the request selects anything that depends on the user.
  let isPersonal: Bool
  /// The values of the other parameters, with the type in brackets if there is one.
  private let names: [Names]

  init(_ query: Query) {
    views = query.list("views") ?? []
    isBare = query["omit[resource]"] == "autos" || query["includeOnly"] != nil
    names = ["include", "includeOnly", "relate", "extend", "fields"].flatMap { parameter -> [Names] in
      let name = parameter == "includeOnly" ? "include" : parameter
      return (query.list(parameter).map { [(name, nil, $0)] } ?? [])
        + query.bracketed(parameter).map { (name, ByteString($0.inner), Query.elements($0.value)) }
    }
    let isSelected = names.contains { selected in
      let isOfRelationships = ["include", "relate"].contains(selected.parameter)
      return (isOfRelationships ? ["library"] : Self.personalAttributes).contains(where: selected.names.contains)
    }
    isPersonal = isSelected || query.values("filter[identity]").contains("personal")
  }

  private func names(_ parameter: String, _ name: ByteString, _ type: ResourceType, depth: Int = 0) -> Bool {
    names.contains { selected in
      selected.parameter == parameter && selected.names.contains(name)
        && (selected.type.map { $0 == type.name } ?? (depth == 0))
    }
  }

  /// Returns the relationships that a resource shows: at the top those of its type, below only those in `include[type]`.
  func relationships(of type: ResourceType, depth: Int) -> [Shown] {
    guard depth < Self.maximumDepth else { return [] }
    return type.relationships.compactMap { relation in
      if names("include", relation.name, type, depth: depth) { return (relation, true) }
      if names("relate", relation.name, type, depth: depth) { return (relation, false) }
      guard depth == 0, !isBare else { return nil }
      return relation.isWhole.map { (relation, $0) }
    }
  }

  func shows(_ name: ByteString, of type: ResourceType) -> Bool {
    let lists = names.filter { $0.parameter == "fields" && ($0.type == nil || $0.type == type.name) }
    guard lists.isEmpty else { return lists.contains { $0.names.contains(name) } }
    return !type.extended.contains(name) || names("extend", name, type)
  }

  func personalAttributes(of type: ResourceType) -> [ByteString] {
    Self.personalAttributes.filter { names("extend", $0, type) || names("fields", $0, type) }
  }
}
