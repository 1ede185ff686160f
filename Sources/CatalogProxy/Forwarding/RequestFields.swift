/// Looks up the header fields of a caller's request by name. A field that the proxy does not look up cannot go
/// upstream.
public protocol RequestFields {
  /// What the field lines of one name say.
  ///
  /// - Parameter lowercaseName: The name in lower case.
  func value(of lowercaseName: StaticString) -> RequestFieldValue
}
