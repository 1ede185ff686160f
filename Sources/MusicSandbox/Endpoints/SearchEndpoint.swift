import Bytes

/// The endpoint `/v1/catalog/{storefront}/search`, with hints and suggestions.
struct SearchEndpoint {
  private let place: Place
  private let query: Query

  /// The searchable types, in the order of groups with equal rank.
  private static let types: [ResourceType] = [
    .artists, .albums, .songs, .playlists, .musicVideos, .stations, .curators, .appleCurators, .recordLabels,
  ]

  init(_ place: Place, _ query: Query) {
    (self.place, self.query) = (place, query)
  }

  /// Responds to a search.
  ///
  /// - Parameter segments: The segments after `search`.
  func respond(_ segments: ArraySlice<String>) throws(AppleError) -> Document {
    switch segments.first {
    case nil: return try results()
    case "hints" where segments.count == 1: return try hints()
    case "suggestions" where segments.count == 1: return try suggestions()
    default: throw .pathNotFound
    }
  }

  // MARK: Results

  private func results() throws(AppleError) -> Document {
    let term = try term()
    let types = try requestedTypes() ?? Self.types
    let paging = try Paging(query, standard: 5, maximum: 25)
    let writer = ResourceWriter(place: place, selection: try Selection(query, for: types))
    let matches = Matches(of: term, in: place)
    var groups: [(String, Document?)] = []
    var ranks: [(name: String, rank: Int)] = []
    for type in types {
      let found = matches.of(type)
      let page = paging.page(of: found)
      guard let best = found.first, !page.isEmpty else { continue }
      groups.append((type.rawValue, try group(type, page, count: found.count, paging, term, writer)))
      ranks.append((type.rawValue, best.rank))
    }
    let order = ranks.enumerated().sorted { ($0.element.rank, $0.offset) < ($1.element.rank, $1.offset) }
    var names = order.map(\.element.name)
    if query.list("with")?.contains("topResults") ?? false {
      let top = types.flatMap { matches.of($0).prefix(2) }.sorted { $0.rank < $1.rank }.prefix(paging.limit)
      groups.append(("topResults", ["data": try writer.resources(top.map(\.item))]))
      names.insert("topResults", at: 0)
    }
    return [
      "results": .object(groups),
      "meta": ["results": ["order": .strings(names), "rawOrder": .strings(names)]],
    ]
  }

  /// Returns a group. Its `next` keeps the term and the type, because paging goes on for one type only.
  private func group(
    _ type: ResourceType, _ page: ArraySlice<Match>, count: Int, _ paging: Paging, _ term: String,
    _ writer: ResourceWriter
  ) throws(AppleError) -> Document {
    let path = "/v1/catalog/\(place.storefront.id)/search"
    let language = place.requestedLanguage.map { "l=\(FormEncoding.encodeQueryValue($0))&" } ?? ""
    let rest = "term=\(FormEncoding.encodeQueryValue(term))&types=\(type.rawValue)"
    let next = paging.nextOffset(count: count).map { Document.string("\(path)?\(language)offset=\($0)&\(rest)") }
    let offset = paging.offset > 0 ? "offset=\(paging.offset)&" : ""
    return .object([
      ("href", .string("\(path)?\(language)limit=\(paging.limit)&\(offset)\(rest)")), ("next", next),
      ("data", try writer.resources(page.map(\.item))),
    ])
  }

  private func term() throws(AppleError) -> String {
    guard let term = query["term"] else { throw .missingParameter("term") }
    guard term.contains(where: { !$0.isWhitespace }) else {
      throw .invalidParameter("term", "The search term must not be empty")
    }
    return term
  }

  private func requestedTypes() throws(AppleError) -> [ResourceType]? {
    guard let names = query.list("types") else { return nil }
    guard !names.isEmpty else { throw .invalidParameter("types", "No type(s) supplied in the 'types' query parameter") }
    var types: [ResourceType] = []
    for name in names {
      guard let type = ResourceType(rawValue: name), Self.types.contains(type) else {
        throw .invalidParameter("types", "No type found matching '\(name.prefix(64))'")
      }
      if !types.contains(type) { types.append(type) }
    }
    return types
  }

  // MARK: Hints and suggestions

  private func hints() throws(AppleError) -> Document {
    let paging = try Paging(query, standard: 10, maximum: 10)
    return ["results": ["terms": .strings(try terms().prefix(paging.limit))]]
  }

  private func suggestions() throws(AppleError) -> Document {
    guard let kinds = query.list("kinds") else { throw .missingParameter("kinds") }
    for kind in kinds where kind != "terms" && kind != "topResults" {
      throw .invalidParameter("kinds", "No kind found matching '\(kind.prefix(64))'")
    }
    let limit = try Paging(query, standard: 5, maximum: 10).limit
    var suggestions: [Document] = []
    if kinds.contains("terms") {
      suggestions += try terms().prefix(limit).map {
        ["kind": "terms", "searchTerm": .string($0), "displayTerm": .string($0)]
      }
    }
    if kinds.contains("topResults") {
      let types = try requestedTypes() ?? Self.types
      let writer = ResourceWriter(place: place, selection: try Selection(query, for: types))
      let matches = Matches(of: try term(), in: place)
      for match in types.flatMap({ matches.of($0).prefix(1) }).prefix(limit) {
        suggestions.append(["kind": "topResults", "content": try writer.resource(match.item)])
      }
    }
    return ["results": ["suggestions": .array(suggestions)]]
  }

  /// Returns the names of matches, in lower case without duplicates.
  private func terms() throws(AppleError) -> [String] {
    let matches = Matches(of: try term(), in: place)
    var seen: Set<String> = []
    return Self.types.flatMap { matches.of($0).prefix(10) }
      .map { $0.item.name[place.language].lowercased() }.filter { seen.insert($0).inserted }
  }
}

/// A resource that matches a search.
struct Match: Sendable {
  let item: Item
  /// The quality of the match: 0 for the whole name, 1 for its beginning, 2 for words of it, 3 for its artist or
  /// curator.
  let rank: Int
}

/// The matches of a search term.
struct Matches {
  private let term: String
  private let words: [String]
  private let place: Place

  init(of term: String, in place: Place) {
    self.place = place
    words = Self.words(term)
    self.term = words.joined(separator: " ")
  }

  /// Returns the matches of a type, the best first. Equal matches keep the order of the catalog.
  func of(_ type: ResourceType) -> [Match] {
    let found = place.catalog.all(type, in: place.storefront.id).compactMap(match)
    return found.enumerated().sorted { ($0.element.rank, $0.offset) < ($1.element.rank, $1.offset) }.map(\.element)
  }

  /// Returns a match if every word of the term begins a word of the name, or of the artist or curator.
  private func match(_ item: Item) -> Match? {
    let isTranslated = !item.name.translations.isEmpty
    let name = isTranslated ? Self.words(item.name[place.language]) : item.searchWords.name
    let others = item.searchWords.others
    guard !words.isEmpty, words.allSatisfy({ Self.isBeginning($0, of: name) || Self.isBeginning($0, of: others) })
    else { return nil }
    let joined = name.joined(separator: " ")
    if joined == term { return Match(item: item, rank: 0) }
    if joined.hasPrefix(term) { return Match(item: item, rank: 1) }
    return Match(item: item, rank: words.allSatisfy { Self.isBeginning($0, of: name) } ? 2 : 3)
  }

  private static func isBeginning(_ word: String, of words: [String]) -> Bool {
    words.contains { $0.utf8.starts(with: word.utf8) }
  }

  /// Returns the words of a text in lower case.
  static func words(_ text: String) -> [String] {
    text.lowercased().split { !$0.isLetter && !$0.isNumber }.map(String.init)
  }
}
