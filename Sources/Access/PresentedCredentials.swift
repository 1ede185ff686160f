public import HTTPMessages

/// The credential and the origin that a request presents.
public struct PresentedCredentials: Sendable {
  /// A credential as it came, not yet believed.
  public enum Credential: Sendable {
    /// The token of `Authorization: Bearer` (RFC 6750 §2.1): an API key or a JWT.
    case bearer(ArraySlice<UInt8>)
    /// The value of `X-API-Key`.
    case apiKey(ArraySlice<UInt8>)
    /// The names of a TLS client certificate that verifies.
    case certificate([SubjectName])
    /// One that was good when the connection began, and is not any more.
    case outdatedCertificate
    /// Something that is no single credential; a sentence says why.
    case malformed(String)
  }

  /// The `Origin` field (RFC 6454 §7).
  public enum RequestOrigin: Sendable, Equatable {
    /// The request has no `Origin`.
    case absent
    /// One origin.
    case present(Origin)
    /// The `Origin` is `null`, has several values, or is not an origin. The text is safe to quote.
    case unusable(String)

    /// What browsers send for a page without an origin (RFC 6454 §7.1).
    public static let opaque = "null"

    /// The origin, or `null`, as a log may show it; nil if the field is absent or holds anything else.
    public var name: String? {
      switch self {
      case .present(let origin): origin.description
      case .unusable(Self.opaque): Self.opaque
      case .absent, .unusable: nil
      }
    }
  }

  /// The one credential; nil if the request has no credential.
  public var credential: Credential?
  /// The origin of the page that asks.
  public var origin: RequestOrigin

  /// What a request presents.
  public init(credential: Credential? = nil, origin: RequestOrigin = .absent) {
    self.credential = credential
    self.origin = origin
  }

  /// The same in memory of its own, for a wait: a slice of a request's head keeps the whole head.
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
