import Bytes

/// The parts of each resource that a request selects: `include`, `includeOnly`, `relate`, `extend`, `views`, `fields`.
/// Like Apple, the emulator ignores names that a type does not have.
struct ResourceSelection {
  typealias Shown = (relation: Relation, isWhole: Bool)
  private typealias Names = (parameter: String, type: ByteString?, names: [ByteString])

  /// The depth from which resources show no relationships, because albums include songs, which include albums, and so
  /// on without end.
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

  /// Returns the relationships that a resource shows. A top-level resource shows those of its type, a nested one only
  /// those in `include[type]`.
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
