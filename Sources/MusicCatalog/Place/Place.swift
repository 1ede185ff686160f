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
  /// The parts of each resource that the response shows.
  var selection: Selection

  init(_ request: APIRequest, _ storefront: Resource, library: LibraryContents?) throws(AppleError) {
    (self.request, self.storefront, self.library) = (request, storefront, library)
    language = String(Resource.primary(try storefront.language(for: request.query["l"])))
    selection = Selection(request.query)
  }

  var query: Query { request.query }
  var types: TypeTable { request.catalog.types }

  /// The same place, where resources show only included relationships.
  var bare: Place {
    var place = self
    place.selection.isBare = true
    return place
  }

  /// The same place, where resources are as they are without any selection.
  var plain: Place {
    var place = self
    place.selection = Selection(Query())
    return place
  }

  // MARK: Paths

  func path(_ type: ResourceType) -> String {
    type.path.tail.map { "\(type.path.head)\(storefront.key.id)\($0)" } ?? type.path.head
  }

  func href(_ resource: Resource) -> String { "\(path(resource.type))/\(resource.key.id)" }

  func href(_ resource: Resource, _ relation: Relation) -> String {
    "\(href(resource))/\(relation.title == nil ? "" : "view/")\(relation.name)"
  }

  /// Returns a path with parameters and the language of the request, sorted by name as in Apple's links.
  func link(_ path: String, _ parameters: [(name: String, value: String?)]) -> JSONValue {
    let all = [("l", query["l"])] + parameters
    let pairs = all.sorted { $0.0 < $1.0 }.compactMap { name, value in
      value.map { "\(name)=\(PercentEncoding.formValue($0))" }
    }
    return .text("\(path)?\(pairs.joined(separator: "&"))")
  }

  // MARK: Resources

  func find(_ key: ResourceKey) -> Resource? {
    guard types[key.type]?.isOfLibrary != true else { return library?.resources.find(key) }
    return request.catalog.find(key).flatMap { isAvailable($0) ? $0 : nil }
  }

  func all(_ type: ResourceType) -> [Resource] {
    if type.isOfLibrary { return library?.resources.all(type.name) ?? [] }
    return request.catalog.resources.all(type.name).filter(isAvailable)
  }

  private func isAvailable(_ resource: Resource) -> Bool {
    resource.storefronts?.contains(storefront.key.id) ?? true
  }

  func permitted(_ resources: [Resource]) -> [Resource] {
    guard query.values("restrict").contains("explicit") else { return resources }
    return resources.filter { $0["contentRating"] != "explicit" }
  }

  /// Returns the resource of the catalog that belongs to a resource of a library.
  func original(_ resource: Resource) -> Resource? { resource.related["catalog"]?.first.flatMap(find) }

  // MARK: Relationships

  /// Returns the resources of a relationship or view: those that the resource lists, or else those at the relation's
  /// path.
  func related(_ resource: Resource, _ relation: Relation) -> [Resource] {
    let listed = resource.related[relation.name]?.compactMap(find) ?? []
    guard listed.isEmpty, !relation.path.isEmpty else { return permitted(listed) }
    var found = relation.path.reduce([resource]) { found, step in found.flatMap { follow(step, from: $0) } }
    var seen: Set<ResourceKey> = [resource.key]
    found = found.filter { found in
      seen.insert(found.key).inserted && relation.conditions.allSatisfy { found[$0.name] == $0.value }
    }
    func date(_ resource: Resource) -> ByteString { resource["releaseDate"]?.string ?? "" }
    if relation.isNewestFirst { found.sort { date($0) > date($1) } }
    return permitted(Array(found.prefix(relation.first)))
  }

  func related(_ resource: Resource, _ name: ByteString) -> [Resource] {
    resource.type.relationships.first { $0.name == name }.map { related(resource, $0) } ?? []
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
}
