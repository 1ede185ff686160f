import Bytes
import JSON

/// The endpoint `/v1/catalog/{storefront}/search`, with hints and suggestions, and `/v1/me/library/search`.
struct SearchEndpoint {
  private let place: Place
  private let types: [ResourceType]
  private let path: String
  private let isOfLibrary: Bool
  private var query: Query { place.query }

  init(_ place: Place, isOfLibrary: Bool = false) {
    (self.place, self.isOfLibrary) = (place.bare, isOfLibrary)
    types = place.types.all.filter { $0.isSearchable && $0.isOfLibrary == isOfLibrary }
    path = isOfLibrary ? "/v1/me/library/search" : "/v1/catalog/\(place.storefront.id)/search"
  }

  /// Responds to a search.
  ///
  /// - Parameter segments: The segments after `search`.
  func respond(_ segments: ArraySlice<String>) throws(AppleError) -> JSONValue {
    switch (segments.first, segments.count) {
    case (nil, _): return try results()
    case ("hints", 1) where !isOfLibrary:
      let paging = try Paging(query, PageSizes(10, most: 10))
      return ["results": ["terms": .strings(try terms().prefix(paging.limit))]]
    case ("suggestions", 1) where !isOfLibrary: return try suggestions()
    default: throw .init(.pathNotFound)
    }
  }

  private func results() throws(AppleError) -> JSONValue {
    let text = try text()
    guard !isOfLibrary || query["types"] != nil else { throw .init(.missingParameter, parameter: "types") }
    let types = try requestedTypes()
    let paging = try Paging(query, PageSizes(5, most: 25))
    let term = SearchTerm(text)
    let found = types.map { (type: $0, matches: term.matches($0, in: place)) }
      .filter { !paging.page(of: $0.matches).isEmpty }
    var groups: [(String, JSONValue?)] = []
    for (type, matches) in found {
      let parameters: [(name: String, value: String?)] = [("term", text), ("types", type.name.text)]
      groups.append(
        (type.name.text, try place.group(matches.map(\.resource), path, paging, parameters: parameters)))
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
    guard !names.isEmpty else {
      throw .invalid("types", "No type(s) supplied in the 'types' query parameter")
    }
    var requested: [ResourceType] = []
    for name in names {
      guard let type = types.first(where: { $0.name == name }) else {
        throw .invalid("types", "No type found matching '\(name.text.prefix(64))'")
      }
      if !requested.contains(where: { $0 === type }) { requested.append(type) }
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
      let term = SearchTerm(try text())
      for match in try requestedTypes().flatMap({ term.matches($0, in: place).prefix(1) }).prefix(limit) {
        suggestions.append(["kind": "topResults", "content": try place.document(match.resource)])
      }
    }
    return ["results": ["suggestions": .array(suggestions)]]
  }

  /// Returns the names of matches, in lower case without duplicates.
  private func terms() throws(AppleError) -> [String] {
    let term = SearchTerm(try text())
    var seen: Set<ByteString> = []
    return types.flatMap { term.matches($0, in: place).prefix(10) }
      .map { $0.name.lowercased() }.filter { seen.insert(ByteString($0)).inserted }
  }
}
