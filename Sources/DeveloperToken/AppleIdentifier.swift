/// What key IDs and team IDs have in common: exactly ten characters of `A`–`Z` and `0`–`9`.
enum AppleIdentifier {
  static let length = 10

  static func isValid(_ text: some StringProtocol) -> Bool {
    text.utf8.count == length && text.utf8.allSatisfy(isIdentifierByte)
  }

  static func check(_ text: String, as name: String) throws(IdentifierError) {
    guard !isValid(text) else { return }
    throw IdentifierError(name: name, text: text)
  }

  private static func isIdentifierByte(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
  }
}
