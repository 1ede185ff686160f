/// The header fields of a caller's request, asked for by name: what nobody asks for cannot go upstream.
public protocol RequestFields {
  /// What the field lines of one name say.
  ///
  /// - Parameter lowercaseName: The name in lower case.
  func value(of lowercaseName: StaticString) -> RequestFieldValue
}
