extension String {
  /// Whether both are the same bytes. `==` takes canonically equivalent text for the same, which RFC 7519 §2
  /// (StringOrURI) and RFC 7515 §5.3 do not.
  func hasSameBytes(as other: String) -> Bool { utf8.elementsEqual(other.utf8) }
}
