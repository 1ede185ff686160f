/// Describes resources as Apple's API does.
struct ResourceWriter {
  let place: Place
  let selection: Selection

  /// A resource: identifier, attributes, and the relationships and views that are to be seen.
  ///
  /// - Parameter depth: How many others it stands inside of.
  func resource(_ item: Item, depth: Int = 0) throws(AppleError) -> Document {
    let type = item.key.type
    var members = Self.identity(item, place)
    members.append(("attributes", attributes(item)))
    var relationships: [(String, Document?)] = []
    for (rule, showsResources) in selection.relationships(of: type, depth: depth) {
      let related = try relationship(item, rule, depth: showsResources ? depth + 1 : nil)
      relationships.append((rule.name, related))
    }
    if !relationships.isEmpty { members.append(("relationships", .object(relationships))) }
    let views = depth > 0 ? [] : selection.views(of: type)
    if !views.isEmpty {
      var shown: [(String, Document?)] = []
      for view in views { shown.append((view.name, try self.view(item, view))) }
      members.append(("views", .object(shown)))
    }
    return .object(members)
  }

  /// Resources that stand side by side.
  func resources(_ items: some Sequence<Item>, depth: Int = 0) throws(AppleError) -> Document {
    var documents: [Document] = []
    for item in items { documents.append(try resource(item, depth: depth)) }
    return .array(documents)
  }

  /// A resource by its identifier alone.
  func identifier(_ item: Item) -> Document { .object(Self.identity(item, place)) }

  private static func identity(_ item: Item, _ place: Place) -> [(String, Document?)] {
    [
      ("id", .string(item.key.id)), ("type", .string(item.key.type.rawValue)),
      ("href", .string(place.href(item.key))),
    ]
  }

  // MARK: Relationships and views

  /// - Parameter depth: That of the related resources; nil if only their identifiers are to be seen.
  private func relationship(_ item: Item, _ rule: RelationshipRule, depth: Int?) throws(AppleError) -> Document {
    let related = place.catalog.related(item, rule.name, in: place.storefront.id)
    let path = "\(place.href(item.key))/\(rule.name)"
    let paging = try selection.paging(rule)
    let page = paging.page(of: related)
    let data = if let depth { try resources(page, depth: depth) } else { Document.array(page.map(identifier)) }
    return .object([
      ("href", link(path, related)), ("next", place.next(path, paging, count: related.count)), ("data", data),
    ])
  }

  private func view(_ item: Item, _ view: (name: String, title: String)) throws(AppleError) -> Document {
    let related = place.catalog.related(item, view.name, in: place.storefront.id)
    let path = "\(place.href(item.key))/view/\(view.name)"
    let paging = try selection.paging(.view(view.name))
    return .object([
      ("href", link(path, related)), ("next", place.next(path, paging, count: related.count)),
      ("attributes", ["title": .string(view.title)]),
      ("data", try resources(paging.page(of: related), depth: 1)),
    ])
  }

  /// Where the related resources are; nil if there are none, because that path answers 404.
  private func link(_ path: String, _ related: [Item]) -> Document? { related.isEmpty ? nil : .string(path) }

  // MARK: Attributes

  /// The attributes that are to be seen, by name.
  func attributes(_ item: Item) -> Document {
    let type = item.key.type
    let extended = item.extended.filter { selection.extends(type, $0.name) }
    let all = item.attributes + extended + [Attribute("name", .text(item.name))]
    return .object(
      all.filter { !selection.omits(type, $0.name) }.sorted { $0.name < $1.name }
        .map { ($0.name, value($0.value, of: item)) })
  }

  private func value(_ value: Attribute.Value, of item: Item) -> Document {
    switch value {
    case .fixed(let document): document
    case .text(let text): .string(text[place.language])
    case .notes(let text): ["standard": .string(text[place.language]), "short": .string(text[place.language])]
    case .artwork: Artwork(of: item.key).document(base: place.base)
    case .artworkOf(let key): Artwork(of: key).document(base: place.base)
    case .genreNames(let genres): .strings(genres.map { GenreTable.names(of: $0)[place.language] })
    case .playParams: ["id": .string(item.key.id), "kind": .string(item.key.type.playKind ?? "")]
    case .page: .string(page(item))
    }
  }

  /// The address of the web page, like Apple's but without the words of the name.
  private func page(_ item: Item) -> String {
    "https://music.apple.com/\(place.storefront.id)/\(item.key.type.pageWord)/\(item.key.id)"
  }
}

extension RelationshipRule {
  /// The page sizes of a view.
  static func view(_ name: String) -> RelationshipRule { RelationshipRule(name, .onRequest, 10, 100) }
}
