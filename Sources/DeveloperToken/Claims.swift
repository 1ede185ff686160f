/// What a developer token claims (RFC 7519 §4), exactly as Apple takes it.
public struct Claims: Sendable, Hashable {
  /// `iss`, the team.
  public let issuer: TeamID
  /// `iat`, whole seconds since 1970.
  public let issuedAt: Int
  /// `exp`, whole seconds since 1970.
  public let expiresAt: Int
  /// `origin`; left out of the token if there is none, since Apple takes an empty array to allow nothing.
  public let origins: [Origin]

  /// The claims as compact JSON.
  public var json: [UInt8] {
    var text = #"{"iss":"\#(issuer)","iat":\#(issuedAt),"exp":\#(expiresAt)"#
    if !origins.isEmpty {
      // Neither a team ID nor an origin can hold a character that JSON would have escaped.
      text += #","origin":["# + origins.map { "\"\($0)\"" }.joined(separator: ",") + "]"
    }
    text += "}"
    return Array(text.utf8)
  }

  /// The protected header for a key (RFC 7515 §4.1) as JSON. Apple does not ask for `typ`; some tools do.
  static func header(keyID: KeyID) -> [UInt8] {
    Array(#"{"alg":"ES256","kid":"\#(keyID)","typ":"JWT"}"#.utf8)
  }
}
