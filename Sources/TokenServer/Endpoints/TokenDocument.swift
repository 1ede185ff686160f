import Bytes
import DeveloperToken

/// A developer token with its times, as `/token` answers it and `mint --json` prints it.
struct TokenDocument {
  private let token: MintedToken
  private let now: Int

  /// The document of `token` at `now`, in seconds since 1970.
  init(_ token: MintedToken, now: Int) {
    self.token = token
    self.now = now
  }

  /// The JSON object, in UTF-8. `origin` is there only if the token is bound to one.
  var json: [UInt8] {
    var body: [UInt8] = []
    body.reserveCapacity(token.compact.count + 160)
    body.append(#"{"token":""#)
    body.append(contentsOf: token.compact)
    body.append(#"","issuedAt":"#)
    body.append(decimal: token.issuedAt)
    body.append(#","expiresAt":"#)
    body.append(decimal: token.expiresAt)
    body.append(#","expiresIn":"#)
    body.append(decimal: token.expiresAt - now)
    body.append(#","refreshAfter":"#)
    body.append(decimal: max(token.refreshAfter, now))
    if !token.origins.isEmpty {
      for (index, origin) in token.origins.enumerated() {
        body.append(index == 0 ? #","origin":["# : ",")
        body.append(jsonString: origin.description)
      }
      body.append(UInt8(ascii: "]"))
    }
    body.append("}")
    return body
  }
}
