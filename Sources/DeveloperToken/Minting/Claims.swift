import Bytes
public import HTTPMessages

/// What a developer token claims (RFC 7519 §4), exactly as Apple takes it.
public struct Claims: Sendable, Hashable {
  /// `iss`, the team.
  public let issuer: TeamID
  /// `iat`, whole seconds since 1970.
  public let issuedAt: Int
  /// `exp`, whole seconds since 1970.
  public let expiresAt: Int
  /// `origin`. The token omits the claim if the list is empty, because Apple reads an empty array as allowing no
  /// origin.
  public let origins: [Origin]

  /// The claims as compact JSON.
  public var json: [UInt8] {
    // Neither a team ID nor an origin can hold a character that JSON would have escaped.
    var json: [UInt8] = []
    json.reserveCapacity(96 + origins.count * 40)
    json.append(#"{"iss":""#)
    json.append(contentsOf: issuer.description.utf8)
    json.append(#"","iat":"#)
    json.append(decimal: issuedAt)
    json.append(#","exp":"#)
    json.append(decimal: expiresAt)
    for (index, origin) in origins.enumerated() {
      json.append(index == 0 ? #","origin":[""# : #",""#)
      json.append(contentsOf: origin.description.utf8)
      json.append("\"")
    }
    json.append(origins.isEmpty ? "}" : "]}")
    return json
  }

  /// The protected header for a key (RFC 7515 §4.1) as JSON. Apple does not ask for `typ`; some tools do.
  static func header(keyID: KeyID) -> [UInt8] {
    Array(#"{"alg":"ES256","kid":"\#(keyID)","typ":"JWT"}"#.utf8)
  }
}
