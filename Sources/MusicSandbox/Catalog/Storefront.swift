/// A territory that Apple Music is offered in.
struct Storefront: Sendable {
  /// The two-letter code.
  let id: String
  /// Its name in English.
  let name: String
  /// The languages that it answers in; the first one unless a request says otherwise.
  let languageTags: [String]
  /// What becomes of explicit content there: `allowed`, `opt-in` or `prohibited`.
  let explicitContentPolicy: String

  var defaultLanguageTag: String { languageTags.first ?? "en-GB" }

  /// The language that an answer is in: the one asked for if there is one such, else a relative of it, else the default.
  ///
  /// Throws for what is no language tag. Apple's answer to a tag that is well-formed but not supported is not known.
  func language(for tag: String?) throws(AppleError) -> String {
    guard let tag else { return defaultLanguageTag }
    guard Self.isPlausible(tag) else { throw .invalidParameter("l", "Invalid language tag '\(tag)'") }
    return supported(tag) ?? defaultLanguageTag
  }

  /// The tag of this storefront that is `tag`, or has its primary language.
  func supported(_ tag: String) -> String? {
    let wanted = tag.lowercased()
    if let same = languageTags.first(where: { $0.lowercased() == wanted }) { return same }
    let primary = wanted.prefix { $0 != "-" }
    return languageTags.first { $0.lowercased().prefix { $0 != "-" } == primary }
  }

  /// Two or three letters, then subtags of one to eight (RFC 5646 §2.1); longer primary languages do not exist.
  static func isPlausible(_ tag: String) -> Bool {
    let subtags = tag.split(separator: "-", omittingEmptySubsequences: false)
    guard tag.utf8.count <= 35, let primary = subtags.first, (2...3).contains(primary.utf8.count) else { return false }
    return primary.utf8.allSatisfy { ($0 | 0x20) >= 0x61 && ($0 | 0x20) <= 0x7A }
      && subtags.dropFirst().allSatisfy { subtag in
        (1...8).contains(subtag.utf8.count) && subtag.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) }
      }
  }

  var document: Document {
    [
      "id": .string(id), "type": "storefronts", "href": "/v1/storefronts/\(id)",
      "attributes": [
        "explicitContentPolicy": .string(explicitContentPolicy),
        "defaultLanguageTag": .string(defaultLanguageTag), "name": .string(name),
        "supportedLanguageTags": .strings(languageTags),
      ],
    ]
  }
}
