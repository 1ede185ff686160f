import Bytes
import JSON

/// The endpoint `/v1/catalog/{storefront}/search`, with hints and suggestions, and `/v1/me/library/search`.
struct SearchEndpoint {
  private let place: Place
  private let query: Query
  private let types: [ResourceType]
  private let writer: ResourceWriter
  private let path: String
  private let isOfLibrary: Bool

  init(_ request: APIRequest, _ place: Place, isOfLibrary: Bool = false) {
    (self.place, query, self.isOfLibrary) = (place, request.query, isOfLibrary)
    types = place.catalog.types.all.filter { $0.isSearchable && $0.isOfLibrary == isOfLibrary }
    writer = ResourceWriter(place: place, selection: Selection(request.query), isBare: true)
    path = isOfLibrary ? "/v1/me/library/search" : "/v1/catalog/\(place.storefront.id)/search"
  }

  /// Responds to a search.
  ///
  /// - Parameter segments: The segments after `search`.
  func respond(_ segments: ArraySlice<String>) throws(AppleError) -> JSONValue {
    switch segments.first {
    case nil: return try results()
    case "hints" where segments.count == 1 && !isOfLibrary:
      let paging = try Paging(query, standard: 10, maximum: 10)
      return ["results": ["terms": .strings(try terms().prefix(paging.limit))]]
    case "suggestions" where segments.count == 1 && !isOfLibrary: return try suggestions()
    default: throw .pathNotFound
    }
  }

  private func results() throws(AppleError) -> JSONValue {
    let term = try term()
    guard !isOfLibrary || query["types"] != nil else { throw .missingParameter("types") }
    let types = try requestedTypes()
    let paging = try Paging(query, standard: 5, maximum: 25)
    let matches = Matches(of: term, in: place)
    var groups: [(String, JSONValue?)] = []
    var ranks: [(name: String, rank: Int)] = []
    for type in types {
      let found = matches.of(type)
      let page = paging.page(of: found)
      guard let best = found.first, !page.isEmpty else { continue }
      groups.append((type.name.text, try group(type, page, count: found.count, paging, term)))
      ranks.append((type.name.text, best.rank))
    }
    let order = ranks.enumerated().sorted { ($0.element.rank, $0.offset) < ($1.element.rank, $1.offset) }
    var names = order.map(\.element.name)
    if query.values("with").contains("topResults") {
      let top = types.flatMap { matches.of($0).prefix(2) }.sorted { $0.rank < $1.rank }.prefix(paging.limit)
      groups.append(("topResults", ["data": try writer.resources(top.map(\.resource))]))
      names.insert("topResults", at: 0)
    }
    return [
      "results": .object(of: groups),
      "meta": ["results": ["order": .strings(names), "rawOrder": .strings(names)]],
    ]
  }

  /// Returns a group. Its `next` keeps the term and the type, because paging goes on for one type only.
  private func group(
    _ type: ResourceType, _ page: ArraySlice<Match>, count: Int, _ paging: Paging, _ term: String
  ) throws(AppleError) -> JSONValue {
    let language = place.requestedLanguage.map { "l=\(FormEncoding.encodeQueryValue($0))&" } ?? ""
    let rest = "term=\(FormEncoding.encodeQueryValue(term))&types=\(type.name)"
    let next = paging.nextOffset(count: count).map { JSONValue.text("\(path)?\(language)offset=\($0)&\(rest)") }
    let offset = paging.offset > 0 ? "offset=\(paging.offset)&" : ""
    return .object(of: [
      ("href", .text("\(path)?\(language)limit=\(paging.limit)&\(offset)\(rest)")), ("next", next),
      ("data", try writer.resources(page.map(\.resource))),
    ])
  }

  private func term() throws(AppleError) -> String {
    guard let term = query["term"] else { throw .missingParameter("term") }
    guard term.contains(where: { !$0.isWhitespace }) else {
      throw .invalidParameter("term", "The search term must not be empty")
    }
    return term
  }

  private func requestedTypes() throws(AppleError) -> [ResourceType] {
    guard let names = query.list("types") else { return types }
    guard !names.isEmpty else { throw .invalidParameter("types", "No type(s) supplied in the 'types' query parameter") }
    var requested: [ResourceType] = []
    for name in names {
      guard let type = types.first(where: { $0.name == name }) else {
        throw .invalidParameter("types", "No type found matching '\(name.text.prefix(64))'")
      }
      if !requested.contains(where: { $0.name == name }) { requested.append(type) }
    }
    return requested
  }

  private func suggestions() throws(AppleError) -> JSONValue {
    guard let kinds = query.list("kinds") else { throw .missingParameter("kinds") }
    for kind in kinds where kind != "terms" && kind != "topResults" {
      throw .invalidParameter("kinds", "No kind found matching '\(kind.text.prefix(64))'")
    }
    let limit = try Paging(query, standard: 5, maximum: 10).limit
    var suggestions: [JSONValue] = []
    if kinds.contains("terms") {
      suggestions += try terms().prefix(limit).map {
        ["kind": "terms", "searchTerm": .text($0), "displayTerm": .text($0)]
      }
    }
    if kinds.contains("topResults") {
      let matches = Matches(of: try term(), in: place)
      for match in try requestedTypes().flatMap({ matches.of($0).prefix(1) }).prefix(limit) {
        suggestions.append(["kind": "topResults", "content": try writer.resource(match.resource)])
      }
    }
    return ["results": ["suggestions": .array(suggestions)]]
  }

  /// Returns the names of matches, in lower case without duplicates.
  private func terms() throws(AppleError) -> [String] {
    let matches = Matches(of: try term(), in: place)
    var seen: Set<ByteString> = []
    return types.flatMap { matches.of($0).prefix(10) }
      .map { $0.name.lowercased() }.filter { seen.insert(ByteString($0)).inserted }
  }
}

/// The endpoint `/v1/catalog/{storefront}/charts`
struct ChartsEndpoint {
  private static let chart = "most-played"
  /// Apple's bound of the offset: "offset must be less than 200".
  private static let offsetBound = 200

  private let place: Place
  private let query: Query
  private let writer: ResourceWriter

  init(_ place: Place, _ query: Query) {
    (self.place, self.query) = (place, query)
    writer = ResourceWriter(place: place, selection: Selection(query), isBare: true)
  }

  func respond() throws(AppleError) -> JSONValue {
    guard let names = query.list("types"), !names.isEmpty else { throw .missingParameter("types") }
    let paging = try Paging(query, standard: 20, maximum: 50, offsetBelow: Self.offsetBound)
    let genre = query["genre"].map { ResourceKey("genres", ByteString($0)) }
    if let genre, place.find(genre) == nil {
      throw .invalidParameter("genre", "No genre found matching '\(genre.id.text.prefix(64))'")
    }
    if let chart = query["chart"], chart != Self.chart {
      throw .invalidParameter("chart", "No chart found matching '\(chart.prefix(64))'")
    }
    var groups: [(String, JSONValue?)] = []
    for name in names where !groups.contains(where: { name == $0.0 }) {
      guard let type = place.catalog.types[name], let title = type.chart else {
        throw .invalidParameter("types", "No type found matching '\(name.text.prefix(64))'")
      }
      let ranked = place.permitted(place.all(type)).filter { resource in
        resource.filters == nil && (genre.map { place.isOf($0, resource) } ?? true)
      }
      groups.append((name.text, [try group(name.text, Self.chart, title, genre, ranked, paging)]))
    }
    let order = groups.map(\.0)
    for chart in place.catalog.types.charts where query.values("with").contains(chart.parameter) {
      guard let type = place.catalog.types["playlists"] else { continue }
      let ranked = place.all(type).filter { $0.filters?["with"]?.list.contains(chart.parameter) ?? false }
      let group = try group("playlists", chart.chart.text, chart.name.text, nil, ranked, paging, with: chart.parameter)
      groups.append((chart.parameter.text, [group]))
    }
    return ["results": .object(of: groups), "meta": ["results": ["order": .strings(order)]]]
  }

  private func group(
    _ type: String, _ chart: String, _ title: String, _ genre: ResourceKey?, _ ranked: [Resource], _ paging: Paging,
    with parameter: ByteString? = nil
  ) throws(AppleError) -> JSONValue {
    let ranked = Array(ranked.prefix(Self.offsetBound))
    let path = "/v1/catalog/\(place.storefront.id)/charts?chart=\(Self.chart)"
    let genreQuery = genre.map { "&genre=\($0.id)" } ?? ""
    let rest = "&types=\(type)" + (parameter.map { "&with=\($0)" } ?? "")
    let next = paging.nextOffset(count: ranked.count).map {
      JSONValue.text("\(path)\(genreQuery)&offset=\($0)\(rest)")
    }
    return .object(of: [
      ("chart", .text(chart)), ("name", .text(title)),
      ("orderId", .text("\(chart):\(parameter?.text ?? type)")),
      ("href", .text("\(path)\(genreQuery)&limit=\(paging.limit)\(rest)")), ("next", next),
      ("data", try writer.resources(paging.page(of: ranked))),
    ])
  }
}

/// A resource that matches a search.
struct Match: Sendable {
  let resource: Resource
  let name: String
  /// The quality of the match: 0 for the whole name, 1 for its beginning, 2 for words of it, 3 for its artist or
  /// curator.
  let rank: Int
}

/// The words in which a search looks for a resource.
struct SearchedName: Sendable {
  let name: String
  /// The folded words of the name.
  let words: [String]
  /// The folded words of the artist or curator.
  let others: [String]

  init(_ attributes: [JSONValue.Member]) {
    func text(_ names: ByteString...) -> String {
      attributes.first { names.contains($0.name) }?.value.string?.text ?? ""
    }
    name = text("name")
    words = Self.words(name)
    others = Self.words(text("artistName", "curatorName"))
  }

  /// Returns the words of a text in lower case. Latin letters lose their marks; others compare as `Character` does, by
  /// canonical equivalence, so that composed and decomposed text are the same.
  static func words(_ text: String) -> [String] {
    var words: [String] = []
    var word = ""
    for character in text.lowercased() {
      if character.isLetter || character.isNumber {
        word.append(folded(character))
      } else if !word.isEmpty {
        words.append(word)
        word = ""
      }
    }
    return word.isEmpty ? words : words + [word]
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

/// The matches of a search term.
struct Matches {
  private let term: String
  private let words: [String]
  private let place: Place

  init(of term: String, in place: Place) {
    self.place = place
    words = SearchedName.words(term)
    self.term = words.joined(separator: " ")
  }

  /// Returns the matches of a type, the best first. Equal matches keep the order of the catalog.
  func of(_ type: ResourceType) -> [Match] {
    var found: [Match] = []
    if type.isOfLibrary {
      for resource in place.all(type) {
        let attributes = ResourceWriter(place: place, selection: .none).attributes(resource)
        if let match = match(resource, SearchedName(attributes)) { found.append(match) }
      }
    } else {
      let language = String(Storefront.primary(place.language))
      for (resource, name) in zip(place.catalog.all(type.name), place.catalog.searchedNames(type.name))
      where place.find(resource.key) != nil {
        let name = resource.translations == nil ? name : SearchedName(resource.attributes(in: language))
        if let match = match(resource, name) { found.append(match) }
      }
      found = place.isRestricted ? found.filter { $0.resource["contentRating"] != "explicit" } : found
    }
    return found.enumerated().sorted { ($0.element.rank, $0.offset) < ($1.element.rank, $1.offset) }.map(\.element)
  }

  /// Returns a match if every word of the term begins a word of the name, or of the artist or curator.
  private func match(_ resource: Resource, _ name: SearchedName) -> Match? {
    guard !words.isEmpty, words.allSatisfy({ begins($0, name.words) || begins($0, name.others) }) else { return nil }
    let joined = name.words.joined(separator: " ")
    let rank = joined == term ? 0 : joined.hasPrefix(term) ? 1 : words.allSatisfy { begins($0, name.words) } ? 2 : 3
    return Match(resource: resource, name: name.name, rank: rank)
  }

  private func begins(_ word: String, _ words: [String]) -> Bool { words.contains { $0.hasPrefix(word) } }
}
