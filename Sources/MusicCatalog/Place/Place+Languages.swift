import Bytes
import JSON

extension Resource {
  var languageTags: [String] { self["supportedLanguageTags"]?.strings.map(\.text) ?? [] }
  var defaultLanguageTag: String { self["defaultLanguageTag"]?.string?.text ?? "en-GB" }

  /// Returns the language of a response: that of the request if it is supported, otherwise a related one or the
  /// default.
  ///
  /// Throws for an invalid language tag. Apple's response to a valid but unsupported tag is unknown.
  func language(for tag: String?) throws(AppleError) -> String {
    guard let tag else { return defaultLanguageTag }
    guard Self.isPlausible(tag) else { throw .invalid("l", "Invalid language tag '\(tag.prefix(64))'") }
    return bestTag([tag])
  }

  /// Returns the first supported tag that equals one of these or has the same primary language, or the default.
  func bestTag(_ wanted: [String]) -> String {
    for tag in wanted.map({ $0.lowercased() }) {
      let known = languageTags.map { (tag: $0, lowercase: $0.lowercased()) }
      let found =
        known.first { $0.lowercase == tag }
        ?? known.first { Self.primary($0.lowercase) == Self.primary(tag) }
      if let found { return found.tag }
    }
    return defaultLanguageTag
  }

  static func primary(_ tag: String) -> Substring { tag.prefix { $0 != "-" } }

  /// Returns whether a tag has two or three letters, then subtags of one to eight characters (RFC 5646 §2.1). Longer
  /// primary languages do not exist.
  static func isPlausible(_ tag: String) -> Bool {
    let subtags = tag.split(separator: "-", omittingEmptySubsequences: false)
    return tag.utf8.count <= 35 && tag.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }
      && (2...3).contains(primary(tag).count) && primary(tag).allSatisfy(\.isLetter)
      && subtags.dropFirst().allSatisfy { (1...8).contains($0.count) }
  }
}

extension Place {
  /// The response of `/v1/language/{storefront}/tag`: the first supported language, otherwise the default.
  func bestLanguage() throws(AppleError) -> JSONValue {
    try request.require("GET", "HEAD")
    guard let wanted = query["acceptLanguage"] else { throw .init(.missingParameter, parameter: "acceptLanguage") }
    // The format is that of Accept-Language (RFC 9110 §12.5.4). The weights only repeat the order that senders write.
    let tags = wanted.split(separator: ",").map { item in
      String(item.prefix { $0 != ";" }).filter { !$0.isWhitespace }
    }
    return ["results": ["tag": .text(storefront.bestTag(tags))]]
  }
}
