/// `value` as a fault may show it: escaped, and never at length or where it might be key material.
///
/// People paste a signing key into the wrong setting. The shortest PKCS#8 form of a P-256 key is 92 base64 characters,
/// so what is longer than a file's path usually is gets described instead, and so does whatever bears PEM's dashes.
func quoted(_ value: String) -> String {
  guard isQuotable(value) else { return "the value (\(value.utf8.count) bytes)" }
  let escaped = value.unicodeScalars.map { $0.isASCII && $0.value >= 0x20 && $0.value != 0x7F ? String($0) : "?" }
  return "\"\(escaped.joined())\""
}

/// Whether `value` is short and does not look like a part of a key.
func isQuotable(_ value: String) -> Bool {
  value.utf8.count <= 64 && !value.contains("--") && !value.contains("PRIVATE")
}

/// Whether `text`, where a path should be, is a key itself: PEM, or bare base64 of such a length as no path has
/// without a dot, relative to the working directory. Whoever opens a file may quote its path.
func looksLikeKey(_ text: String) -> Bool {
  if text.contains("PRIVATE KEY") || text.contains("-----") { return true }
  guard text.utf8.count >= 80, !text.hasPrefix("/"), !text.hasPrefix(".") else { return false }
  return text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "+/=-_\\".contains($0) || $0.isWhitespace) }
}
