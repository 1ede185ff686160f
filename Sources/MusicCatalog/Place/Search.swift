import Bytes
import JSON

/// The endpoint `/v1/catalog/{storefront}/search`, with hints and suggestions, and `/v1/me/library/search`.
struct Search {
  private let place: Place
  private let types: [ResourceType]
  private let isOfLibrary: Bool
  private var query: Query { place.query }

  init(_ place: Place, isOfLibrary: Bool = false) {
    (self.place, self.isOfLibrary) = (place.bare, isOfLibrary)
    types = place.types.all.filter { $0.isSearchable && $0.isOfLibrary == isOfLibrary }
  }

  /// - Parameter segments: The segments after `search`.
  func respond(_ segments: ArraySlice<String> = []) throws(AppleError) -> JSONValue {
    switch Array(segments) {
    case []: return try results()
    case ["hints"]:
      let paging = try Paging(query, PageSizes(10, most: 10))
      return ["results": ["terms": .strings(try terms().prefix(paging.limit))]]
    case ["suggestions"]: return try suggestions()
    default: throw .init(.pathNotFound)
    }
  }

  private func results() throws(AppleError) -> JSONValue {
    let text = try text()
    guard !isOfLibrary || query["types"] != nil else { throw .init(.missingParameter, parameter: "types") }
    let types = try requestedTypes()
    let paging = try Paging(query, PageSizes(5, most: 25))
    let term = SearchedName.words(text)
    let found = types.map { (type: $0, matches: place.matches(term, $0)) }
      .filter { !paging.page(of: $0.matches).isEmpty }
    let path = isOfLibrary ? "/v1/me/library/search" : "/v1/catalog/\(place.storefront.key.id)/search"
    var groups: [(String, JSONValue?)] = []
    for (type, matches) in found {
      let name = type.name.text
      let group = try place.group(
        matches.map(\.resource), path, paging, parameters: [("term", text), ("types", name)])
      groups.append((name, group))
    }
    let best = found.compactMap(\.matches.first).sorted { $0.rank < $1.rank }
    var names = best.map(\.resource.type.name.text)
    if query.values("with").contains("topResults") {
      let top = found.flatMap { $0.matches.prefix(2) }.sorted { $0.rank < $1.rank }.prefix(paging.limit)
      groups.append(("topResults", ["data": try place.documents(top.map(\.resource))]))
      names.insert("topResults", at: 0)
    }
    return [
      "results": .object(of: groups),
      "meta": ["results": ["order": .strings(names), "rawOrder": .strings(names)]],
    ]
  }

  private func text() throws(AppleError) -> String {
    guard let text = query["term"] else { throw .init(.missingParameter, parameter: "term") }
    guard text.contains(where: { !$0.isWhitespace }) else {
      throw .invalid("term", "The search term must not be empty")
    }
    return text
  }

  private func requestedTypes() throws(AppleError) -> [ResourceType] {
    guard let names = query.list("types") else { return types }
    guard !names.isEmpty else { throw .invalid("types", "No type(s) supplied in the 'types' query parameter") }
    var requested: [ResourceType] = []
    for name in names where !requested.contains(where: { $0.name == name }) {
      guard let type = types.first(where: { $0.name == name }) else {
        throw .invalid("types", "No type found matching '\(name.text.prefix(64))'")
      }
      requested.append(type)
    }
    return requested
  }

  private func suggestions() throws(AppleError) -> JSONValue {
    guard let kinds = query.list("kinds") else { throw .init(.missingParameter, parameter: "kinds") }
    for kind in kinds where kind != "terms" && kind != "topResults" {
      throw .invalid("kinds", "No kind found matching '\(kind.text.prefix(64))'")
    }
    let limit = try Paging(query, PageSizes(5, most: 10)).limit
    var suggestions: [JSONValue] = []
    if kinds.contains("terms") {
      suggestions += try terms().prefix(limit).map {
        ["kind": "terms", "searchTerm": .text($0), "displayTerm": .text($0)]
      }
    }
    if kinds.contains("topResults") {
      let term = SearchedName.words(try text())
      for match in try requestedTypes().flatMap({ place.matches(term, $0).prefix(1) }).prefix(limit) {
        suggestions.append(["kind": "topResults", "content": try place.document(match.resource)])
      }
    }
    return ["results": ["suggestions": .array(suggestions)]]
  }

  /// Returns the names of matches, in lower case without duplicates.
  private func terms() throws(AppleError) -> [String] {
    let term = SearchedName.words(try text())
    var seen: Set<ByteString> = []
    return types.flatMap { place.matches(term, $0).prefix(10) }
      .map { $0.name.lowercased() }.filter { seen.insert(ByteString($0)).inserted }
  }
}
