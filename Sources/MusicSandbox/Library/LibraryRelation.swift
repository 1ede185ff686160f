/// What a catalog request says about the user's library: `relate=library`, `/library` behind a resource, and
/// `filter[identity]=personal`. Such a request needs a music user token.
struct LibraryRelation {
  private let request: APIRequest
  private let isWanted: Bool

  /// Throws 403 if the library is asked for and no good music user token came along.
  init(_ request: APIRequest) throws(AppleError) {
    self.request = request
    let isPersonal = request.query.bracketed("filter").contains { $0.inner == "identity" && $0.value == "personal" }
    isWanted = request.query.list("relate")?.contains("library") ?? false
    if isWanted || isPersonal { _ = try request.library() }
  }

  /// The answer to a request for the relationship itself.
  func answer(_ item: Item) throws(AppleError) -> Document {
    let library = try request.library()
    return ["data": data(item, library)]
  }

  /// A resource, with the relationship in it if it was asked for.
  func added(to resource: Document, _ item: Item) throws(AppleError) -> Document {
    guard isWanted else { return resource }
    let library = try request.library()
    let relation = Document.Member(name: "library", value: ["data": data(item, library)])
    var members = resource.members
    if let index = members.firstIndex(where: { $0.name == "relationships" }) {
      members[index] = .init(name: "relationships", value: .object(members[index].value.members + [relation]))
    } else {
      members.append(.init(name: "relationships", value: .object([relation])))
    }
    return .object(members)
  }

  private func data(_ item: Item, _ library: UserLibrary) -> Document {
    let type = item.key.type
    guard let prefix = LibraryWriter.prefix(type), library.resources(type).contains(item.key) else { return [] }
    let id = prefix + item.key.id
    return [
      [
        "id": .string(id), "type": .string("library-\(type.rawValue)"),
        "href": .string("/v1/me/library/\(type.rawValue)/\(id)"),
      ]
    ]
  }
}
