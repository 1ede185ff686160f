import Bytes
import JSON

/// The endpoints `/v1/catalog/{storefront}/…`, `/v1/storefronts…` and `/v1/language/{storefront}/tag`
struct CatalogEndpoint {
  let request: APIRequest

  func respond() throws(AppleError) -> JSONValue {
    let segments = request.segments
    switch (segments.first, segments.count) {
    case ("catalog", 2...): return try catalog(try request.place(segments[1]), segments.dropFirst(2))
    case ("storefronts", _):
      guard let type = request.catalog.types["storefronts"] else { throw .init(.pathNotFound) }
      return try ResourceEndpoint(place: try request.place("us")).respond(type, segments.dropFirst())
    case ("language", 3) where segments[2] == "tag":
      return try bestLanguage(try request.place(segments[1]).storefront)
    default: throw .init(.pathNotFound)
    }
  }

  private func catalog(_ place: Place, _ segments: ArraySlice<String>) throws(AppleError) -> JSONValue {
    try request.require("GET", "HEAD")
    let rest = segments.dropFirst()
    switch segments.first {
    case nil: return try ResourceEndpoint(place: place).severalTypes(\.isOfCatalog)
    case "search": return try SearchEndpoint(place).respond(rest)
    case "charts" where rest.isEmpty: return try ChartsEndpoint(place: place.bare).respond()
    case let name?:
      guard let type = place.types[ByteString(name)], type.isOfCatalog else {
        throw .init(.invalidPath, "Unknown catalog resource type '\(name.prefix(64))'")
      }
      return try ResourceEndpoint(place: place).respond(type, rest)
    }
  }

  /// Returns the best language of a storefront: the first supported one in the list, otherwise the default.
  private func bestLanguage(_ storefront: Storefront) throws(AppleError) -> JSONValue {
    try request.require("GET", "HEAD")
    guard let wanted = request.query["acceptLanguage"] else {
      throw .init(.missingParameter, parameter: "acceptLanguage")
    }
    // The format is that of Accept-Language (RFC 9110 §12.5.4). The weights only repeat the order that senders write.
    let tags = wanted.split(separator: ",").map { item in
      String(item.prefix { $0 != ";" }).filter { !$0.isWhitespace }
    }
    let tag = tags.lazy.compactMap(storefront.supported).first ?? storefront.defaultLanguageTag
    return ["results": ["tag": .text(tag)]]
  }
}
