import Bytes
import JSON

/// A territory in which Apple Music is available.
struct Storefront: Sendable {
  let resource: Resource

  var id: String { resource.key.id.text }
  var languageTags: [String] { resource["supportedLanguageTags"]?.strings.map(\.text) ?? [] }
  var defaultLanguageTag: String { resource["defaultLanguageTag"]?.string?.text ?? "en-GB" }

  /// Returns the language of a response: that of the request if it is supported, otherwise a related one or the
  /// default.
  ///
  /// Throws for an invalid language tag. Apple's response to a valid but unsupported tag is unknown.
  func language(for tag: String?) throws(AppleError) -> String {
    guard let tag else { return defaultLanguageTag }
    guard Self.isPlausible(tag) else {
      throw .invalid("l", "Invalid language tag '\(tag.prefix(64))'")
    }
    return supported(tag) ?? defaultLanguageTag
  }

  /// Returns the supported tag that equals `tag` or has the same primary language, or nil.
  func supported(_ tag: String) -> String? {
    let wanted = tag.lowercased()
    return languageTags.first { $0.lowercased() == wanted }
      ?? languageTags.first { Self.primary($0.lowercased()) == Self.primary(wanted) }
  }

  static func primary(_ tag: String) -> Substring { tag.prefix { $0 != "-" } }

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
}
