import Bytes
import JSON

/// The context in which a request finds and writes resources: storefront, language and user.
struct Place {
  let request: APIRequest
  let storefront: Resource
  /// The language of the response: a primary subtag (RFC 5646 §2.2.1).
  let language: String
  /// The library of the user; nil for a request without a valid music user token.
  let library: LibraryContents?
  var selection: ResourceSelection

  init(_ request: APIRequest, _ storefront: Resource, library: LibraryContents?) throws(AppleError) {
    (self.request, self.storefront, self.library) = (request, storefront, library)
    language = String(Resource.primary(try storefront.language(for: request.query.language)))
    selection = ResourceSelection(request.query)
  }

  var query: Query { request.query }
  var types: TypeTable { request.catalog.types }

  /// The same place, where resources show only included relationships.
  var bare: Place { selecting { $0.isBare = true } }
  /// The same place, where resources are as they are without any selection.
  var plain: Place { selecting { $0 = ResourceSelection(Query()) } }

  private func selecting(_ change: (inout ResourceSelection) -> Void) -> Place {
    var place = self
    change(&place.selection)
    return place
  }

  func path(_ type: ResourceType) -> String {
    type.path.tail.map { "\(type.path.head)\(storefront.key.id)\($0)" } ?? type.path.head
  }

  func href(_ resource: Resource) -> String { "\(path(resource.type))/\(resource.key.id)" }

  func href(_ resource: Resource, _ relation: Relation) -> String {
    "\(href(resource))/\(relation.heading == nil ? "" : "view/")\(relation.name)"
  }

  /// Returns a path with parameters and the language of the request, sorted by name as in Apple's links.
  func link(_ path: String, _ parameters: [(name: String, value: String?)]) -> JSONValue {
    let all = [("l", query.language)] + parameters
    let pairs = all.sorted { $0.0 < $1.0 }.compactMap { name, value in
      value.map { "\(name)=\(PercentEncoding.formValue($0))" }
    }
    return .text("\(path)?\(pairs.joined(separator: "&"))")
  }

  func find(_ key: ResourceKey) -> Resource? {
    guard types[key.type]?.isOfLibrary != true else { return library?.resources.find(key) }
    return request.catalog.find(key).flatMap { isAvailable($0) ? $0 : nil }
  }

  func all(_ type: ResourceType) -> [Resource] {
    if type.isOfLibrary { return library?.resources.all(type.name) ?? [] }
    return request.catalog.resources.all(type.name).filter(isAvailable)
  }

  private func isAvailable(_ resource: Resource) -> Bool { resource.storefronts?.contains(storefront.key.id) ?? true }

  func permitted(_ resources: [Resource]) -> [Resource] {
    guard query.values("restrict").contains("explicit") else { return resources }
    return resources.filter { $0["contentRating"] != "explicit" }
  }

  /// Returns the resource of the catalog that belongs to a resource of a library.
  func original(_ resource: Resource) -> Resource? { resource.related["catalog"]?.first.flatMap(find) }
  func related(_ resource: Resource, _ relation: Relation) -> [Resource] { permitted(allRelated(resource, relation)) }

  /// Returns the resources that a resource lists in a relationship or view, or else those at the relation's path.
  private func allRelated(_ resource: Resource, _ relation: Relation) -> [Resource] {
    let listed = resource.related[relation.name]?.compactMap(find) ?? []
    guard listed.isEmpty, !relation.path.isEmpty else { return listed }
    var found = relation.path.reduce([resource]) { found, step in found.flatMap { follow(step, from: $0) } }
    var seen: Set<ResourceKey> = [resource.key]
    found = found.filter { found in
      seen.insert(found.key).inserted && relation.conditions.allSatisfy { found[$0.name] == $0.value }
    }
    func date(_ resource: Resource) -> ByteString { resource["releaseDate"]?.string ?? "" }
    if relation.isNewestFirst { found.sort { date($0) > date($1) } }
    return Array(found.prefix(relation.first))
  }

  func related(_ resource: Resource, _ name: ByteString) -> [Resource] {
    resource.type.relationships.first { $0.name == name }.map { allRelated(resource, $0) } ?? []
  }

  /// Follows a step of a path, as `Data/types.json` explains it.
  private func follow(_ step: JSONValue, from resource: Resource) -> [Resource] {
    switch step {
    case "^": return library?.counterpart(resource.key).flatMap(find).map { [$0] } ?? []
    case "station": return find(ResourceKey("stations", "ra.\(resource.key.id)")).map { [$0] } ?? []
    case "genre":
      guard let genre = resource.related["genres"]?.first else { return [] }
      return all(resource.type).filter { $0.related["genres"]?.first == genre }
    case .string(let name): return related(resource, name)
    default:
      let (types, relation) = (step["of"]?.strings ?? [], step["listing"]?.string ?? "")
      let keys = [library?.resources, request.catalog.resources].compactMap(\.self)
        .flatMap { $0.listing(resource.key, types, relation) }
      return keys.compactMap(find)
    }
  }

  /// Returns a resource: identifier, attributes, and the selected relationships and views.
  func document(_ resource: Resource, depth: Int = 0) throws(AppleError) -> JSONValue {
    let relationships = selection.relationships(of: resource.type, depth: depth).filter { shown in
      !shown.relation.isOfLibrary || resource.type.isOfLibrary || library != nil
    }
    let views = resource.type.views.filter { depth == 0 && selection.views.contains($0.name) }
    let attributes = attributes(resource)
    return .object(
      of: identity(resource) + [
        ("attributes", attributes.isEmpty ? nil : .object(attributes)),
        ("relationships", try parts(resource, relationships, depth)),
        ("views", try parts(resource, views.map { ($0, true) }, depth)),
      ])
  }

  func documents(_ resources: some Sequence<Resource>, depth: Int = 0) throws(AppleError) -> JSONValue {
    .array(try resources.map { resource throws(AppleError) in try document(resource, depth: depth) })
  }

  func identifier(_ resource: Resource) -> JSONValue { .object(of: identity(resource)) }

  private func identity(_ resource: Resource) -> [(String, JSONValue?)] {
    [("id", .string(resource.key.id)), ("type", .string(resource.key.type)), ("href", .text(href(resource)))]
  }

  private func parts(
    _ resource: Resource, _ relations: [ResourceSelection.Shown], _ depth: Int
  ) throws(AppleError) -> JSONValue? {
    let parts = try relations.map { relation, isWhole throws(AppleError) -> (String, JSONValue?) in
      let all = related(resource, relation)
      let path = href(resource, relation)
      let page = try page(
        all, path, try Paging(of: relation.name, query, relation.sizes),
        head: [("href", .text(path)), ("attributes", relation.heading)],
        showsTotal: resource.type.isOfLibrary && relation.isOfLibrary, isWhole: isWhole, depth: depth + 1)
      return (relation.name.text, page)
    }
    return parts.isEmpty ? nil : .object(of: parts)
  }

  /// Returns a page: head, resources, and the link to the next page, which repeats neither `limit` nor `extend`.
  func page(
    _ all: [Resource], _ path: String, _ paging: Paging, parameters: [(name: String, value: String?)] = [],
    head: [(String, JSONValue?)] = [], showsTotal: Bool = false, isWhole: Bool = true, depth: Int = 0
  ) throws(AppleError) -> JSONValue {
    let next = paging.nextOffset(count: all.count)
    let page = paging.page(of: all)
    let data = isWhole ? try documents(page, depth: depth) : .array(page.map(identifier))
    return .object(
      of: head + [
        ("next", next.map { link(path, parameters + [("offset", "\($0)")]) }), ("data", data),
        ("meta", showsTotal ? ["total": .whole(all.count)] : nil),
      ])
  }

  /// Returns a page of one group of a search or of charts. Paging goes on for this group only, by its parameters.
  func group(
    _ all: [Resource], _ path: String, _ paging: Paging, parameters: [(name: String, value: String?)],
    head: [(String, JSONValue?)] = []
  ) throws(AppleError) -> JSONValue {
    let offset = paging.offset > 0 ? "\(paging.offset)" : nil
    let href = link(path, parameters + [("limit", "\(paging.limit)"), ("offset", offset)])
    return try page(all, path, paging, parameters: parameters, head: head + [("href", href)])
  }

  func attributes(_ resource: Resource) -> [JSONValue.Member] {
    var all = filled(resource)
    if let original = original(resource) {
      all += shared(resource, original).filter { [all] other in !all.contains { $0.name == other.name } }
      all.sort { $0.name < $1.name }
    }
    if let library {
      for name in selection.personalAttributes(of: resource.type) {
        let isOwned = library.resources.find(library.counterpart(resource.key) ?? resource.key) != nil
        let isTrue = name == "inFavorites" ? library.favorites.contains(resource.key) : isOwned
        all.append(.init(name: name, value: .bool(isTrue)))
      }
    }
    return all.filter { selection.shows($0.name, of: resource.type) }
  }

  /// Returns the attributes with what depends on the request.
  private func filled(_ resource: Resource) -> [JSONValue.Member] {
    JSONValue.object(resource.attributes(in: language)).filled { name in
      switch name {
      case "base": .text(request.base)
      case "storefront": .string(storefront.key.id)
      case "genres.name": .array(related(resource, "genres").compactMap { $0["name", in: language] })
      default: nil
      }
    }.members
  }

  /// Returns what a resource of a library has from its counterpart in the catalog.
  private func shared(_ resource: Resource, _ original: Resource) -> [JSONValue.Member] {
    let fixed: JSONValue = resource.type.name == "library-playlists" ? ["canEdit": false, "hasCatalog": true] : .null
    let shared = filled(original).filter { resource.type.shared.contains($0.name) } + fixed.members
    guard let kind = resource.type.kind, original["playParams"] != nil else { return shared }
    let parameters: JSONValue = [
      "id": .string(resource.key.id), "kind": kind, "isLibrary": true, "catalogId": .string(original.key.id),
    ]
    return shared + [.init(name: "playParams", value: parameters)]
  }
}
