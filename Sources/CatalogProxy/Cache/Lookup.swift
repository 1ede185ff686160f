/// What the cache has for a request.
public enum Lookup: Sendable {
  /// The server sends the response: it is fresh, or no more stale than the caller allows (`max-stale`).
  case hit(Selection)
  /// The response is stale, but the server sends it while a background request validates it (RFC 5861 §3).
  case staleWhileRevalidate(Selection)
  /// The proxy must validate the response upstream, with its ``StoredAnswer/validators``. With the reason
  /// ``ForwardReason/request`` the response is fresh, but does not satisfy the directives of the request.
  case validate(Selection, ForwardReason)
  /// The cache has no response.
  case miss(ForwardReason)
  /// The cache cannot serve the request, and the caller forbids asking upstream (`only-if-cached`): 504 (RFC 9111
  /// §5.2.1.7).
  case unsatisfiable
}
