import DeveloperToken
import HTTP1
import HTTPServer
import HTTPTypes

/// A developer token as `/token` hands it out.
struct TokenAnswer {
  let token: MintedToken
  let now: Int
  let form: Form

  /// How the caller would like it (RFC 9110 §12.5.1).
  enum Form {
    /// An object with the token and its times.
    case json
    /// The token alone, as `application/jwt`.
    case jwt
    /// The token alone, as `text/plain`.
    case text
  }

  init(_ token: MintedToken, now: Int, form: Form) {
    self.token = token
    self.now = now
    self.form = form
  }

  var response: Response {
    switch form {
    case .json: Response(.ok, prepared: Self.json, body: TokenDocument(token, now: now).json)
    case .jwt: Response(.ok, prepared: Self.jwt, body: token.compact)
    case .text: Response(.ok, prepared: Self.text, body: token.compact)
    }
  }

  private static let json = fields("application/json")
  private static let jwt = fields("application/jwt")
  private static let text = fields("text/plain")

  /// A token is for one caller, so no cache on the way may store it (RFC 9111 §5.2.2.5).
  private static func fields(_ type: String) -> FieldSection {
    FieldSection([
      .contentType: type, .cacheControl: "no-store", .vary: "Origin, Accept", .xContentTypeOptions: "nosniff",
    ])
  }
}
