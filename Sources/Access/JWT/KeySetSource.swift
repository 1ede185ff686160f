/// Where the keys of an identity provider come from: a JWK Set (RFC 7517 §5).
public enum KeySetSource: Sendable, Hashable {
  /// A file.
  case file(String)
  /// An `https` URL, and in PEM whose signatures its certificate may bear; nil for the system's store.
  case url(String, caFile: String?)
}
