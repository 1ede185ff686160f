/// A resource that a search found.
struct Match: Sendable {
  let item: Item
  /// How well it matches: 0 for the very name, 1 for its beginning, 2 for words of it, 3 for its artist or curator.
  let rank: Int
}

/// What a search term finds.
struct Matches {
  private let term: String
  private let words: [String]
  private let place: Place

  init(of term: String, in place: Place) {
    self.place = place
    words = Self.words(term)
    self.term = words.joined(separator: " ")
  }

  /// The matches of a type, the best first, equal ones as they stand in the catalog.
  func of(_ type: ResourceType) -> [Match] {
    let found = place.catalog.all(type, in: place.storefront.id).compactMap(match)
    return found.enumerated().sorted { ($0.element.rank, $0.offset) < ($1.element.rank, $1.offset) }.map(\.element)
  }

  /// Every word of the term must begin a word of the name, or of who made it.
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

  /// The words of a text, in lower case.
  static func words(_ text: String) -> [String] {
    text.lowercased().split { !$0.isLetter && !$0.isNumber }.map(String.init)
  }
}
