import DeveloperToken
import HTTPServer

/// A developer token with its times, as `/token` answers it and `mint --json` prints it.
struct TokenDocument {
  private let token: DeveloperToken
  private let now: Int

  /// The document of `token` at `now`, in seconds since 1970.
  init(_ token: DeveloperToken, now: Int) {
    self.token = token
    self.now = now
  }

  /// The JSON object, in UTF-8. `origin` is there only if the token is bound to one.
  var json: [UInt8] {
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
    body.append(contentsOf: "}".utf8)
    return body
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
