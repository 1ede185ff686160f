/// A territory in which Apple Music is available.
struct Storefront: Sendable {
  /// The two-letter code.
  let id: String
  /// The English name.
  let name: String
  /// The supported languages; the first is the default.
  let languageTags: [String]
  /// The treatment of explicit content: `allowed`, `opt-in` or `prohibited`.
  let explicitContentPolicy: String

  var defaultLanguageTag: String { languageTags.first ?? "en-GB" }

  /// Returns the language of a response: that of the request if it is supported, otherwise a related one or the
  /// default.
  ///
  /// Throws for an invalid language tag. Apple's response to a valid but unsupported tag is unknown.
  func language(for tag: String?) throws(AppleError) -> String {
    guard let tag else { return defaultLanguageTag }
    guard Self.isPlausible(tag) else { throw .invalidParameter("l", "Invalid language tag '\(tag)'") }
    return supported(tag) ?? defaultLanguageTag
  }

  /// Returns the supported tag that equals `tag` or has the same primary language, or nil.
  func supported(_ tag: String) -> String? {
    let wanted = tag.lowercased()
    if let same = languageTags.first(where: { $0.lowercased() == wanted }) { return same }
    let primary = wanted.prefix { $0 != "-" }
    return languageTags.first { $0.lowercased().prefix { $0 != "-" } == primary }
  }

  /// Returns whether a tag has two or three letters, then subtags of one to eight characters (RFC 5646 §2.1). Longer
  /// primary languages do not exist.
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

extension Storefront {
  /// A part of Apple's list, ordered by code. The languages are those in Apple's documentation or those spoken there.
  static let all: [Storefront] = [
    .init("ae", "United Arab Emirates", "en-GB ar", "opt-in"),
    .init("ar", "Argentina", "es-MX en-GB"),
    .init("at", "Austria", "de-DE en-GB"),
    .init("au", "Australia", "en-AU"),
    .init("be", "Belgium", "en-GB fr-FR nl"),
    .init("br", "Brazil", "pt-BR en-GB"),
    .init("ca", "Canada", "en-CA fr-CA"),
    .init("ch", "Switzerland", "de-DE en-GB fr-FR it"),
    .init("cl", "Chile", "es-MX en-GB"),
    .init("cn", "China mainland", "zh-Hans-CN en-GB", "prohibited"),
    .init("de", "Germany", "de-DE en-GB"),
    .init("dk", "Denmark", "da en-GB"),
    .init("es", "Spain", "es-ES ca en-GB"),
    .init("fi", "Finland", "fi en-GB"),
    .init("fr", "France", "fr-FR en-GB"),
    .init("gb", "United Kingdom", "en-GB"),
    .init("hk", "Hong Kong", "zh-Hant-HK zh-Hant-TW en-GB"),
    .init("ie", "Ireland", "en-GB"),
    .init("in", "India", "en-GB hi"),
    .init("it", "Italy", "it en-GB"),
    .init("jp", "Japan", "ja en-US"),
    .init("kr", "Korea, Republic of", "ko en-GB"),
    .init("mx", "Mexico", "es-MX en-GB"),
    .init("ng", "Nigeria", "en-GB"),
    .init("nl", "Netherlands", "nl en-GB"),
    .init("no", "Norway", "nb en-GB"),
    .init("nz", "New Zealand", "en-AU"),
    .init("pl", "Poland", "pl en-GB"),
    .init("pt", "Portugal", "pt-PT en-GB"),
    .init("se", "Sweden", "sv en-GB"),
    .init("sg", "Singapore", "en-GB zh-Hans-CN"),
    .init("tr", "Türkiye", "tr en-GB", "opt-in"),
    .init("tw", "Taiwan", "zh-Hant-TW en-GB"),
    .init("ua", "Ukraine", "uk en-GB ru"),
    .init("us", "United States", "en-US es-MX ar ru zh-Hans-CN fr-FR ko pt-BR vi zh-Hant-TW"),
    .init("za", "South Africa", "en-GB"),
  ]

  private static let byID = Dictionary(all.map { ($0.id, $0) }) { first, _ in first }

  /// The storefront with this code; nil for an unknown code.
  static subscript(id: String) -> Storefront? { byID[id] }

  private init(_ id: String, _ name: String, _ tags: String, _ explicitContentPolicy: String = "allowed") {
    (self.id, self.name, self.explicitContentPolicy) = (id, name, explicitContentPolicy)
    languageTags = tags.split(separator: " ").map(String.init)
  }
}
