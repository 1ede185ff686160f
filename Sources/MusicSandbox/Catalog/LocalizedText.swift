/// A text in several languages.
struct LocalizedText: Sendable, ExpressibleByStringInterpolation {
  /// What is read where there is no translation: English.
  let standard: String
  /// Translations by primary language subtag (RFC 5646 §2.2.1).
  let translations: [String: String]

  init(_ standard: String, _ translations: [String: String] = [:]) {
    (self.standard, self.translations) = (standard, translations)
  }

  init(stringLiteral value: String) { self.init(value) }

  /// The text in the language of a tag such as `de-DE`.
  subscript(tag: String) -> String {
    translations[String(tag.prefix { $0 != "-" })] ?? standard
  }
}
