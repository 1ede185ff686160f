import Bytes
import JSON
import Locks

struct Match {
  let resource: Resource
  let name: String
  /// The quality of the match: 0 for the whole name, 1 for its beginning, 2 for words of it, 3 for its artist or
  /// curator.
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
