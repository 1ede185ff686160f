public import HTTPMessages

/// The credential and the origin that a request presents.
public struct PresentedCredentials: Sendable {
  /// A credential as the request presents it, not verified.
  public enum Credential: Sendable {
    /// The token of `Authorization: Bearer` (RFC 6750 §2.1): an API key or a JWT.
    case bearer(ArraySlice<UInt8>)
    /// The value of `X-API-Key`.
    case apiKey(ArraySlice<UInt8>)
    /// The names of a TLS client certificate that the server has verified.
    case certificate([SubjectName])
    /// A certificate that was valid when the connection began, but is not valid now.
    case outdatedCertificate
    /// A value that is not a single credential; the sentence says why.
    case malformed(String)
  }

  /// The `Origin` field (RFC 6454 §7).
  public enum RequestOrigin: Sendable, Equatable {
    /// The request has no `Origin`.
    case absent
    /// A single valid origin.
    case present(Origin)
    /// The `Origin` is `null`, has several values, or is not an origin. The text is safe to quote.
    case unusable(String)

    /// The value that browsers send for a page without an origin (RFC 6454 §7.1).
    public static let opaque = "null"

    /// The origin or `null`, safe for a log; nil if the field is absent or holds anything else.
    public var name: String? {
      switch self {
      case .present(let origin): origin.description
      case .unusable(Self.opaque): Self.opaque
      case .absent, .unusable: nil
      }
    }
  }

  /// The only credential; nil if the request has none.
  public var credential: Credential?
  /// The origin of the requesting page.
  public var origin: RequestOrigin

  /// Creates the credentials of a request, by default without any.
  public init(credential: Credential? = nil, origin: RequestOrigin = .absent) {
    self.credential = credential
    self.origin = origin
  }

  /// Returns a copy in its own memory, to hold while the request waits: a slice of a request's head keeps the whole
  /// head.
  public func copied() -> PresentedCredentials {
    var copy = self
    switch credential {
    case .bearer(let token): copy.credential = .bearer(Array(token)[...])
    case .apiKey(let key): copy.credential = .apiKey(Array(key)[...])
    case .certificate, .outdatedCertificate, .malformed, nil: break
    }
    return copy
  }
}
