/// `value` as a fault may show it: escaped, and never at length or where it might be key material.
///
/// People paste a signing key into the wrong setting. The shortest PKCS#8 form of a P-256 key is 92 base64 characters,
/// so what is longer than a file's path usually is gets described instead, and so does whatever bears PEM's dashes or
/// the beginning of an API key.
func quoted(_ value: String) -> String {
  isQuotable(value) ? "\"\(escaped(value))\"" : "the value (\(value.utf8.count) bytes)"
}

/// `value` as it may stand in a fault without quotation marks: a member's name in a path, a number, an origin.
func shown(_ value: String) -> String {
  isQuotable(value) ? escaped(value) : "…"
}

private func escaped(_ value: String) -> String {
  value.unicodeScalars.map { $0.isASCII && $0.value >= 0x20 && $0.value != 0x7F ? String($0) : "?" }.joined()
}

/// Whether `value` is short and does not look like a part of a key.
func isQuotable(_ value: String) -> Bool {
  // Not in another case of letters either: a host's name loses its capitals.
  value.utf8.count <= 64 && !value.contains("--") && !value.contains("PRIVATE")
    && !value.lowercased().contains(apiKeyPrefix)
}

/// What the keys of `new-api-key` begin with.
private let apiKeyPrefix = "mkts_"

/// Whether `text` has an API key in it, or so much of one that it is no word: `mkts_server.pem` may be a file's name.
func holdsAPIKey(_ text: String) -> Bool {
  text.split(separator: apiKeyPrefix, omittingEmptySubsequences: false).dropFirst().contains { rest in
    rest.prefix { $0.isASCII && ($0.isLetter || $0.isNumber) }.count >= 16
  }
}

/// Whether `text`, where a path should be, is a key itself: PEM, an API key, or base64 of 80 bytes or more, which is
/// too long for a relative path without a dot. If the text does not look like a key, an error may quote it as a path.
func looksLikeKey(_ text: String) -> Bool {
  if text.contains("PRIVATE KEY") || text.contains("-----") || holdsAPIKey(text) { return true }
  guard text.utf8.count >= 80, !text.hasPrefix("/"), !text.hasPrefix(".") else { return false }
  return text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "+/=-_\\".contains($0) || $0.isWhitespace) }
}
