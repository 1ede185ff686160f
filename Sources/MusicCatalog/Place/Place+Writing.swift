import Bytes
import JSON

extension Place {
  /// Returns a resource: identifier, attributes, and the selected relationships and views.
  func document(_ resource: Resource, depth: Int = 0) throws(AppleError) -> JSONValue {
    let relationships = selection.relationships(of: resource.type, depth: depth).filter { shown in
      !shown.relation.isOfLibrary || resource.type.isOfLibrary || library != nil
    }
    let views = resource.type.views.filter { depth == 0 && selection.views.contains($0.name) }
    return .object(
      of: identity(resource) + [
        ("attributes", .object(attributes(resource))),
        ("relationships", try parts(resource, relationships, depth)),
        ("views", try parts(resource, views.map { ($0, .resources) }, depth)),
      ])
  }

  func documents(_ resources: some Sequence<Resource>, depth: Int = 0) throws(AppleError) -> JSONValue {
    var documents: [JSONValue] = []
    for resource in resources { documents.append(try document(resource, depth: depth)) }
    return .array(documents)
  }

  func identifier(_ resource: Resource) -> JSONValue { .object(of: identity(resource)) }

  private func identity(_ resource: Resource) -> [(String, JSONValue?)] {
    [
      ("id", .string(resource.key.id)), ("type", .string(resource.key.type)), ("href", .text(href(resource))),
    ]
  }

  private func parts(
    _ resource: Resource, _ relations: [Selection.Shown], _ depth: Int
  ) throws(AppleError) -> JSONValue? {
    var parts: [(String, JSONValue?)] = []
    for (relation, appearance) in relations {
      let all = related(resource, relation)
      let path = href(resource, relation)
      // Without related resources, the path answers 404.
      let head: [(String, JSONValue?)] = [
        ("href", all.isEmpty ? nil : .text(path)), ("attributes", relation.title.map { ["title": $0] }),
      ]
      let page = try page(
        all, path, try Paging(of: relation, query), head: head, appearance: appearance, depth: depth + 1)
      parts.append((relation.name.text, page))
    }
    return parts.isEmpty ? nil : .object(of: parts)
  }

  // MARK: Pages

  /// Returns a page: its head, the link to the next page, and the resources. The link repeats neither `limit` nor
  /// `extend`.
  ///
  /// - Parameters:
  ///   - parameters: The parameters that the link repeats.
  func page(
    _ all: [Resource], _ path: String, _ paging: Paging, parameters: [(name: String, value: String?)] = [],
    head: [(String, JSONValue?)] = [], showsTotal: Bool = false, appearance: Relation.Appearance = .resources,
    depth: Int = 0
  ) throws(AppleError) -> JSONValue {
    let next = paging.nextOffset(count: all.count)
    let page = paging.page(of: all)
    let data = appearance == .resources ? try documents(page, depth: depth) : .array(page.map(identifier))
    return .object(
      of: head + [
        ("next", next.map { link(path, parameters + [("offset", "\($0)")]) }), ("data", data),
        ("meta", showsTotal ? ["total": .whole(all.count)] : nil),
      ])
  }

  /// Returns a page of one group of a search or of charts. Its links keep the parameters that select the group, because
  /// paging goes on for one group only.
  func group(
    _ all: [Resource], _ path: String, _ paging: Paging, parameters: [(name: String, value: String?)],
    head: [(String, JSONValue?)] = []
  ) throws(AppleError) -> JSONValue {
    let offset = paging.offset > 0 ? "\(paging.offset)" : nil
    let href = link(path, parameters + [("limit", "\(paging.limit)"), ("offset", offset)])
    return try page(all, path, paging, parameters: parameters, head: head + [("href", href)])
  }

  // MARK: Attributes

  func attributes(_ resource: Resource) -> [JSONValue.Member] {
    var all = filled(resource)
    if let original = original(resource) {
      let own = all
      all += shared(resource, original).filter { other in !own.contains { $0.name == other.name } }
      all.sort { $0.name < $1.name }
    }
    if let library {
      for name in selection.personalAttributes(of: resource.type) {
        let isTrue = name == "inFavorites" ? library.favorites.contains(resource.key) : library.has(resource.key)
        all.append(.init(name: name, value: .bool(isTrue)))
      }
    }
    return all.filter { selection.shows($0.name, of: resource.type) }
  }

  /// Returns the attributes with what depends on the request.
  private func filled(_ resource: Resource) -> [JSONValue.Member] {
    let filled = JSONValue.object(resource.attributes(in: language)).filled { name in
      switch name {
      case "base": .value(.text(request.base))
      case "storefront": .value(.string(storefront.key.id))
      case "genres.name": .value(.array(genreNames(resource)))
      default: .name
      }
    }
    return filled?.members ?? []
  }

  private func genreNames(_ resource: Resource) -> [JSONValue] {
    related(resource, "genres").compactMap { genre in
      genre.attributes(in: language).first { $0.name == "name" }?.value
    }
  }

  /// Returns what a resource of a library has from its counterpart in the catalog.
  private func shared(_ resource: Resource, _ original: Resource) -> [JSONValue.Member] {
    let shared = filled(original).filter { resource.type.shared.contains($0.name) }
    guard let kind = resource.type.kind else { return shared }
    let parameters: JSONValue = [
      "id": .string(resource.key.id), "kind": kind, "isLibrary": true, "catalogId": .string(original.key.id),
    ]
    return shared + [.init(name: "playParams", value: parameters)]
  }
}
