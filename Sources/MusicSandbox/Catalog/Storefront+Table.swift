extension Storefront {
  /// A part of Apple's list, in the order of the codes, with the languages that it documents or that are spoken there.
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
