public import Bytes
import DeveloperToken
import JSON

/// A JSON Web Token (RFC 7519) in compact serialization, taken apart and not yet believed.
///
/// Signed ones only (RFC 7515), with the strictness of RFC 8725: what a header says is checked, never followed.
public struct JWT: Sendable {
  /// Longest JWT that is looked at, in bytes: more than a header field may have.
  public static let limit = JWS.limit

  let jws: JWS
  let header: JWTHeader
  let claims: JWTClaims

  /// Takes it apart, and checks all of the form and the header.
  ///
  /// - Throws: `JWTRefusal`.
  public init(compact: Span<UInt8>) throws(JWTRefusal) {
    do throws(JWSError) { jws = try JWS(compact: compact) } catch { throw JWTRefusal(error) }
    guard let header = jws.header else { throw .malformed(.header) }
    self.header = try JWTHeader(header)
    guard let claims = JSONReader.read(jws.payload) else { throw .malformed(.claims) }
    self.claims = try JWTClaims(claims)
  }

  /// The algorithm that it says it is signed by.
  public var algorithm: JWTAlgorithm { header.algorithm }

  /// The key that it says it is signed by.
  public var keyID: ByteString? { header.keyID }

  /// The issuer that it says it is from: to find whose rules apply, and for nothing else.
  public var issuer: ByteString? { claims.issuer }
}

extension JWTRefusal {
  fileprivate init(_ error: JWSError) {
    switch error {
    case .tooLong: self = .tooLong
    case .parts: self = .malformed(.parts)
    case .notBase64URL: self = .malformed(.encoding)
    }
  }
}
