import Bytes
import JSON
import Locks

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

  func respond() throws(AppleError) -> JSONValue {
    switch Array(place.request.segments.dropFirst(3)) {
    case []: return try results()
    case ["hints"]:
      let limit = try Paging(query, PageSizes(10, most: 10)).limit
      return ["results": ["terms": .strings(try terms().prefix(limit))]]
    case ["suggestions"]: return ["results": ["suggestions": .array(try suggestions())]]
    default: throw .init(.pathNotFound)
    }
  }

  private func results() throws(AppleError) -> JSONValue {
    let (text, term) = try term()
    guard !isOfLibrary || query["types"] != nil else { throw .init(.missingParameter, parameter: "types") }
    let types = try requestedTypes()
    let paging = try Paging(query, PageSizes(5, most: 25))
    let path = isOfLibrary ? "/v1/me/library/search" : "/v1/catalog/\(place.storefront.key.id)/search"
    var groups: [(String, JSONValue?)] = []
    var best: [Match] = []
    for type in types {
      let matches = place.matches(term, type)
      guard !paging.page(of: matches).isEmpty else { continue }
      let parameters = [("term", text), ("types", type.name.text)]
      let group = try place.group(matches.map(\.resource), path, paging, parameters: parameters)
      groups.append((type.name.text, group))
      best += matches.prefix(2)
    }
    best.sort { $0.rank < $1.rank }
    var seen: Set<ByteString> = []
    var names = best.map(\.resource.key.type).filter { seen.insert($0).inserted }.map(\.text)
    if query.values("with").contains("topResults") {
      groups.append(("topResults", ["data": try place.documents(best.prefix(paging.limit).map(\.resource))]))
      names.insert("topResults", at: 0)
    }
    let order = JSONValue.strings(names)
    return ["results": .object(of: groups), "meta": ["results": ["order": order, "rawOrder": order]]]
  }

  /// Returns the term as the request has it, and its words.
  private func term() throws(AppleError) -> (text: String, words: [String]) {
    guard let text = query["term"] else { throw .init(.missingParameter, parameter: "term") }
    guard text.contains(where: { !$0.isWhitespace }) else {
      throw .invalid("term", "The search term must not be empty")
    }
    return (text, SearchedName.words(text))
  }

  private func requestedTypes() throws(AppleError) -> [ResourceType] {
    guard let names = query.list("types") else { return types }
    guard !names.isEmpty else { throw .invalid("types", "No type(s) supplied in the 'types' query parameter") }
    let requested = types.filter { names.contains($0.name) }
    for name in names where !requested.contains(where: { $0.name == name }) { throw .noMatch("types", name) }
    return requested
  }

  private func suggestions() throws(AppleError) -> [JSONValue] {
    guard let kinds = query.list("kinds") else { throw .init(.missingParameter, parameter: "kinds") }
    for kind in kinds where kind != "terms" && kind != "topResults" { throw .noMatch("kinds", kind) }
    let limit = try Paging(query, PageSizes(5, most: 10)).limit
    var suggestions: [JSONValue] = []
    if kinds.contains("terms") {
      suggestions += try terms().prefix(limit).map {
        ["kind": "terms", "searchTerm": .text($0), "displayTerm": .text($0)]
      }
    }
    guard kinds.contains("topResults") else { return suggestions }
    let words = try term().words
    for match in try requestedTypes().flatMap({ place.matches(words, $0).prefix(1) }).prefix(limit) {
      suggestions.append(["kind": "topResults", "content": try place.document(match.resource)])
    }
    return suggestions
  }

  /// Returns the names of matches, in lower case without duplicates.
  private func terms() throws(AppleError) -> [String] {
    let words = try term().words
    var seen: Set<ByteString> = []
    return types.flatMap { place.matches(words, $0).prefix(10) }
      .map { $0.name.lowercased() }.filter { seen.insert(ByteString($0)).inserted }
  }
}

struct Match {
  let resource: Resource
  let name: String
  /// The quality of the match: 0 for the whole name, 1 its beginning, 2 words of it, 3 its artist or curator.
  let rank: Int
}

/// The words in which a search looks for a resource.
struct SearchedName: Sendable {
  let name: String
  private let words: [String]
  private let others: [String]

  init(_ attributes: [JSONValue.Member]) {
    func text(_ names: ByteString...) -> String {
      attributes.first { names.contains($0.name) }?.value.string?.text ?? ""
    }
    name = text("name")
    words = Self.words(name)
    others = Self.words(text("artistName", "curatorName"))
  }

  /// Returns the quality of the match if each word of the term begins a word of the name, or of the artist or curator.
  func rank(_ term: [String]) -> Int? {
    func isFound(_ word: String, in words: [String]) -> Bool { words.contains { $0.hasPrefix(word) } }
    guard !term.isEmpty, term.allSatisfy({ isFound($0, in: words) || isFound($0, in: others) }) else { return nil }
    let (text, joined) = (term.joined(separator: " "), words.joined(separator: " "))
    return joined == text ? 0 : joined.hasPrefix(text) ? 1 : term.allSatisfy { isFound($0, in: words) } ? 2 : 3
  }

  /// Returns the words of a text in lower case. Latin letters lose their marks; others compare as `Character` does, by
  /// canonical equivalence, so that composed and decomposed text are the same.
  static func words(_ text: String) -> [String] {
    text.lowercased().split { !$0.isLetter && !$0.isNumber }.map { String($0.map(folded)) }
  }

  private static func folded(_ character: Character) -> Character {
    guard !character.isASCII, let first = character.unicodeScalars.first else { return character }
    if first.isASCII { return Character(first) }
    // The Unicode Standard names such a letter "LATIN SMALL LETTER E WITH ACUTE".
    let words = first.properties.name?.split(separator: " ") ?? []
    guard words.count > 4, words[0] == "LATIN", words[2] == "LETTER", words[3].utf8.count == 1, words[4] == "WITH",
      let letter = words[3].lowercased().first
    else { return character }
    return letter
  }
}

extension Place {
  /// Returns the resources of a type that a term finds, the best first. Equal matches keep the order of the catalog.
  func matches(_ term: [String], _ type: ResourceType) -> [Match] {
    let found = permitted(all(type)).compactMap { resource in
      let name = searchedName(resource)
      return name.rank(term).map { Match(resource: resource, name: name.name, rank: $0) }
    }
    return found.sorted { $0.rank < $1.rank }
  }

  private func searchedName(_ resource: Resource) -> SearchedName {
    let names = request.catalog.names
    // Other names depend on the language or the user.
    let isFixed = resource.translations == nil && !resource.type.isOfLibrary
    if isFixed, let known = names[resource.key] { return known }
    let name = SearchedName(plain.attributes(resource))
    if isFixed { names.remember(name, for: resource.key) }
    return name
  }
}
