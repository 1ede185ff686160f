import JSON

/// `/v1/me/ratings/{type}/{id}`, and `/v1/me/ratings/{type}?ids=`
struct RatingsEndpoint {
  private let request: APIRequest
  private let library: UserLibrary
  private let place: Place

  init(_ request: APIRequest, _ library: UserLibrary, _ place: Place) {
    (self.request, self.library, self.place) = (request, library, place)
  }

  func answer() throws(AppleError) -> SandboxAnswer {
    let segments = Array(request.segments.dropFirst(2))
    guard let name = segments.first, segments.count <= 2 else { throw .pathNotFound }
    guard let type = ResourceType(rawValue: name), type.playKind != nil else {
      throw .invalidPath("Unknown rating resource type '\(name.prefix(64))'")
    }
    guard segments.count == 2 else { return try list(type) }
    try request.require("GET", "HEAD", "PUT", "DELETE")
    let key = ResourceKey(type, segments[1])
    guard place.catalog.item(key, in: place.storefront.id) != nil else { throw .resourceNotFound }
    switch request.method {
    case "PUT": return try put(key)
    case "DELETE":
      _ = library.rate(key, nil)
      return SandboxAnswer(204)
    default:
      guard let value = library.rating(key) else { throw .resourceNotFound }
      return .json(["data": [document(key, value)]])
    }
  }

  private func list(_ type: ResourceType) throws(AppleError) -> SandboxAnswer {
    try request.require("GET", "HEAD")
    guard let ids = request.query.list("ids") else {
      throw .missingParameter("ids", "No id(s) supplied on the request")
    }
    let ratings = ids.map { ResourceKey(type, $0) }.compactMap { key in
      library.rating(key).map { document(key, $0) }
    }
    return .json(["data": .array(ratings)])
  }

  private func put(_ key: ResourceKey) throws(AppleError) -> SandboxAnswer {
    guard let value = JSONReader.read(request.content), case .number(let text)? = value["attributes"]?["value"],
      let rating = Int(text), rating == 1 || rating == -1
    else { throw .invalidContent("attributes.value must be 1 or -1") }
    guard library.rate(key, rating) else { throw .libraryFull }
    return .json(["data": [document(key, rating)]])
  }

  private func document(_ key: ResourceKey, _ value: Int) -> Document {
    [
      "id": .string(key.id), "type": "ratings",
      "href": .string("/v1/me/ratings/\(key.type.rawValue)/\(key.id)"), "attributes": ["value": .number(value)],
    ]
  }
}
