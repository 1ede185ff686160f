import HTTPTypes

/// Whether a whole answer to a `GET` may be stored in a cache that all callers share (RFC 9111 §3).
///
/// RFC 9111 §3.5 keeps responses to requests with `Authorization` out of shared caches, because they may be meant only
/// for the holder of that credential. Here the proxy itself holds it: it sends the same credential for all callers.
/// From a caller's request it sends only what is part of the key or what `Vary` selects by. So Apple sees one user, and
/// every caller that may use this proxy may have the response that it got. That clause therefore protects no caller
/// here. The proxy still obeys `private` and `no-store`, because an origin states them explicitly.
public enum StorageVerdict: Sendable, Equatable {
  /// It may.
  case store
  /// It may not.
  case refuse(Reason)

  /// Why an answer is not stored. The raw value is a `detail` for `Cache-Status`.
  public enum Reason: String, Sendable {
    /// The status is not worth repeating: a temporary error, or a status about the credential.
    case status
    /// Part of a representation (RFC 9110 §14.4).
    case partial
    /// `Cache-Control: no-store`.
    case noStore = "no-store"
    /// `Cache-Control: private`.
    case isPrivate = "private"
    /// `Vary: *`, or one that cannot be read.
    case vary
    /// It sets a cookie: for whomever that is meant, it is not for the next caller.
    case setCookie = "set-cookie"
    /// A content coding that we can neither undo nor offer.
    case coding
    /// Larger than one answer may be.
    case tooLarge = "too-large"
    /// It could never be used: stale at once, with nothing to validate it by.
    case useless
  }

  /// The statuses that are stored: heuristically cacheable ones (RFC 9110 §15.1) that Apple uses and that stand for a
  /// while. 206 is not among them: `Range` is never sent upstream.
  static func mayStore(_ status: HTTPResponse.Status) -> Bool {
    switch status.code {
    case 200, 301, 308, 404, 410: true
    default: false
    }
  }

  init(
    _ answer: ReceivedAnswer, content: AnswerContent, directives: ResponseDirectives, freshness: Freshness,
    isSelectable: Bool, settings: CacheSettings
  ) {
    let fields = answer.fields
    func refusal() -> Reason? {
      if !Self.mayStore(answer.status) { return .status }
      if fields.contains(.contentRange) { return .partial }
      if content.unknownCoding != nil { return .coding }
      if content.identity.count > settings.largestStored { return .tooLarge }
      // All statuses above are understood, so with must-understand no-store does not count (RFC 9111 §5.2.2.3).
      if directives.noStore, !directives.mustUnderstand { return .noStore }
      if directives.isPrivate { return .isPrivate }
      if fields.contains(.setCookie) { return .setCookie }
      if !isSelectable { return .vary }
      let isUsableUnvalidated =
        !freshness.noCache && (freshness.lifetime > 0 || freshness.staleWhileRevalidate + freshness.staleIfError > 0)
      if !isUsableUnvalidated, !fields.contains(.eTag), !fields.contains(.lastModified) { return .useless }
      return nil
    }
    self = refusal().map { .refuse($0) } ?? .store
  }
}
