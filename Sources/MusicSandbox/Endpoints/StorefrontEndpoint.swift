/// `/v1/storefronts…` and `/v1/language/{storefront}/tag`
struct StorefrontEndpoint {
  private static let maximumIDs = 25

  let request: APIRequest

  /// The storefronts: one, some, or page by page all.
  func storefronts() throws(AppleError) -> Document {
    try request.require("GET", "HEAD")
    let segments = Array(request.segments.dropFirst())
    if let tag = request.query["l"], !Storefront.isPlausible(tag) {
      throw .invalidParameter("l", "Invalid language tag '\(tag.prefix(64))'")
    }
    guard segments.count <= 1 else { throw .pathNotFound }
    if let id = segments.first {
      guard let storefront = Storefront[id] else { throw .resourceNotFound }
      return ["data": [storefront.document]]
    }
    if let ids = request.query.list("ids") {
      guard (1...Self.maximumIDs).contains(ids.count) else {
        throw .invalidParameter("ids", "Between 1 and \(Self.maximumIDs) ids may be given, but were: \(ids.count)")
      }
      return ["data": .array(ids.compactMap { Storefront[$0]?.document })]
    }
    return try list()
  }

  private func list() throws(AppleError) -> Document {
    let paging = try Paging(request.query, standard: 100, maximum: 200)
    let next = paging.nextOffset(count: Storefront.all.count).map { Document.string("/v1/storefronts?offset=\($0)") }
    return .object([("next", next), ("data", .array(paging.page(of: Storefront.all).map(\.document)))])
  }

  /// The language of a storefront that suits best: the first of the list that it has, else its default.
  func bestLanguage() throws(AppleError) -> Document {
    try request.require("GET", "HEAD")
    let segments = Array(request.segments.dropFirst())
    guard segments.count == 2, segments[1] == "tag" else { throw .pathNotFound }
    guard let storefront = Storefront[segments[0]] else {
      throw .invalidPath("Unknown storefront '\(segments[0].prefix(32))'")
    }
    guard let wanted = request.query["acceptLanguage"] else { throw .missingParameter("acceptLanguage") }
    // As in Accept-Language (RFC 9110 §12.5.4); the weights only repeat the order that senders write.
    let tags = wanted.split(separator: ",").map { item in
      String(item.prefix { $0 != ";" }).filter { !$0.isWhitespace }
    }
    let tag = tags.lazy.compactMap(storefront.supported).first ?? storefront.defaultLanguageTag
    return ["results": ["tag": .string(tag)]]
  }
}
