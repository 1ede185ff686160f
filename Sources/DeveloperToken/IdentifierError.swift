/// A key ID or team ID that Apple cannot have given out.
public struct IdentifierError: Error, Sendable, Hashable, CustomStringConvertible {
  /// "key ID" or "team ID".
  let name: String
  /// The value given. It may be the key itself by mistake, so the error shows it only when it is short.
  let text: String

  /// One sentence that names what is wrong.
  public var description: String {
    "The \(name) \(Printable.quote(text, limit: 16)) is not one: Apple's are exactly \(AppleIdentifier.length)"
      + " characters of A–Z and 0–9\(hint)."
  }

  private var hint: String {
    let count = text.utf8.count
    if count == 0 { return ", and this is empty" }
    if count != AppleIdentifier.length { return ", and this has \(count)" }
    return AppleIdentifier.isValid(text.uppercased()) ? ", and this has lower-case letters" : ""
  }
}
