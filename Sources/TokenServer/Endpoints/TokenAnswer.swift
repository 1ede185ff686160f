import DeveloperToken
import HTTP1
import HTTPServer
import HTTPTypes

/// A developer token as `/token` hands it out.
struct TokenAnswer {
  let token: DeveloperToken
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

  init(_ token: DeveloperToken, now: Int, form: Form) {
    self.token = token
    self.now = now
    self.form = form
  }

  var response: Response {
    switch form {
    case .json: Response(.ok, fields: Self.jsonFields, body: json)
    case .jwt: Response(.ok, fields: Self.jwtFields, body: token.compact)
    case .text: Response(.ok, fields: Self.textFields, body: token.compact)
    }
  }

  private var json: [UInt8] {
    var body: [UInt8] = []
    body.reserveCapacity(token.compact.count + 160)
    body.append(contentsOf: #"{"token":""#.utf8)
    body.append(contentsOf: token.compact)
    body.append(contentsOf: #"","issuedAt":"#.utf8)
    body.append(decimal: token.issuedAt)
    body.append(contentsOf: #","expiresAt":"#.utf8)
    body.append(decimal: token.expiresAt)
    body.append(contentsOf: #","expiresIn":"#.utf8)
    body.append(decimal: token.expiresAt - now)
    body.append(contentsOf: #","refreshAfter":"#.utf8)
    body.append(decimal: max(token.refreshAfter, now))
    if !token.origins.isEmpty {
      for (index, origin) in token.origins.enumerated() {
        body.append(contentsOf: (index == 0 ? #","origin":["# : ",").utf8)
        body.append(jsonString: origin.description.utf8)
      }
      body.append(UInt8(ascii: "]"))
    }
    body.append(contentsOf: "}\n".utf8)
    return body
  }

  private static let jsonFields = fields("application/json")
  private static let jwtFields = fields("application/jwt")
  private static let textFields = fields("text/plain")

  /// A token is for one caller: nobody on the way may keep it (RFC 9111 §5.2.2.5).
  private static func fields(_ type: String) -> HTTPFields {
    [.contentType: type, .cacheControl: "no-store", .vary: "Origin, Accept", .xContentTypeOptions: "nosniff"]
  }
}

extension [UInt8] {
  /// Appends a number in decimal, without a string on the way.
  fileprivate mutating func append(decimal number: Int) {
    guard number >= 0 else { return append(contentsOf: String(number).utf8) }
    let start = count
    var rest = number
    repeat {
      append(UInt8(ascii: "0") + UInt8(rest % 10))
      rest /= 10
    } while rest > 0
    self[start...].reverse()
  }
}
