import Bytes
import JSON

struct Match {
  let resource: Resource
  let name: String
  /// The quality of the match: 0 for the whole name, 1 for its beginning, 2 for words of it, 3 for its artist or
  /// curator.
  let rank: Int
}

/// The term of a search, in words.
struct SearchTerm {
  private let words: [String]

  init(_ text: String) {
    words = SearchedName.words(text)
  }

  /// Returns the matches of a type, the best first. Equal matches keep the order of the catalog.
  func matches(_ type: ResourceType, in place: Place) -> [Match] {
    let known = place.request.catalog.searchedNames(type)
    var all = place
    all.selection = Selection(Query())
    let found = place.permitted(place.all(type)).compactMap { resource in
      let name = known[resource.key] ?? SearchedName(all.attributes(resource))
      return rank(name).map { Match(resource: resource, name: name.name, rank: $0) }
    }
    return found.sorted { $0.rank < $1.rank }
  }

  /// Returns the quality if every word of the term begins a word of the name, or of the artist or curator.
  private func rank(_ name: SearchedName) -> Int? {
    guard !words.isEmpty, words.allSatisfy({ begins($0, name.words) || begins($0, name.others) }) else { return nil }
    let term = words.joined(separator: " ")
    let joined = name.words.joined(separator: " ")
    return joined == term ? 0 : joined.hasPrefix(term) ? 1 : words.allSatisfy { begins($0, name.words) } ? 2 : 3
  }

  private func begins(_ word: String, _ words: [String]) -> Bool { words.contains { $0.hasPrefix(word) } }
}

/// The words in which a search looks for a resource.
struct SearchedName: Sendable {
  let name: String
  let words: [String]
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
    let text = text.lowercased()
    return text.split { !$0.isLetter && !$0.isNumber }.map { String($0.map(folded)) }
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
