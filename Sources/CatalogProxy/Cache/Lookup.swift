/// What the cache has for a request.
public enum Lookup: Sendable {
  /// To be served: fresh, or no more stale than the caller likes it (`max-stale`).
  case hit(Selection)
  /// The response is stale, but the server sends it while a background request validates it (RFC 5861 §3).
  case staleWhileRevalidate(Selection)
  /// To be asked about upstream, with its ``StoredAnswer/validators``. By the reason ``ForwardReason/request`` it is a
  /// fresh answer that the caller does not want without.
  case validate(Selection, ForwardReason)
  /// Nothing.
  case miss(ForwardReason)
  /// The cache cannot serve the request, and the caller forbids asking upstream (`only-if-cached`): 504 (RFC 9111
  /// §5.2.1.7).
  case unsatisfiable
}
