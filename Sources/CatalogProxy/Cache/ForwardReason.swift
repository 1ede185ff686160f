/// Why a request went upstream. The raw value is that of the parameter `fwd` (RFC 9211 §2.2).
public enum ForwardReason: String, Sendable, CaseIterable {
  /// The cache is not for such requests.
  case bypass
  /// The method.
  case method
  /// Nothing is stored for the target.
  case uriMiss = "uri-miss"
  /// What is stored for the target is for other request fields.
  case varyMiss = "vary-miss"
  /// Nothing usable is stored, for another reason.
  case miss
  /// A fresh answer is stored, but the request does not allow its use: the caller forces validation.
  case request
  /// A stale answer is stored.
  case stale
}
