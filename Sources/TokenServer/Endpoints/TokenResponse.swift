import Bytes
import DeveloperToken
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes

struct TokenResponse {
  let document: TokenDocument
  let form: Form

  /// The form of the response that the caller prefers (RFC 9110 §12.5.1).
  enum Form {
    /// An object with the token and its times.
    case json
    /// Only the token, as `application/jwt`.
    case jwt
    /// Only the token, as `text/plain`.
    case text
  }

  var response: Response {
    switch form {
    case .json: Response(.ok, prepared: Self.json, body: document.json)
    case .jwt: Response(.ok, prepared: Self.jwt, body: document.token.compact)
    case .text: Response(.ok, prepared: Self.text, body: document.token.compact)
    }
  }

  private static let json = fields("application/json")
  private static let jwt = fields("application/jwt")
  private static let text = fields("text/plain")

  /// Returns the fields. A token is for one caller, so no cache may store it (RFC 9111 §5.2.2.5).
  private static func fields(_ type: String) -> FieldSection {
    FieldSection([
      .contentType: type, .cacheControl: "no-store", .vary: "Origin, Accept", .xContentTypeOptions: "nosniff",
    ])
  }
}

extension TokenResponse.Form {
  /// Chooses the form that a request's `Accept` prefers: JSON if it names no other form, or has several field lines.
  init(accept request: Request) {
    guard case .single(let value) = request.field("accept"), value.count > 3 else {
      self = .json
      return
    }
    self.init(accept: value)
  }

  /// Chooses the first form with the highest weight (RFC 9110 §12.4.2), or JSON if none of the other forms is named.
  ///
  /// The list is read in place, because every request for a token has one. Browsers' lists have a hundred bytes and
  /// half a dozen elements. A much longer list costs nothing and gets JSON.
  init(accept value: ArraySlice<UInt8>) {
    self = .json
    guard value.count <= Self.longestAccept else { return }
    let list = value.span
    var best = (form: Self.json, weight: 0)
    var start = 0
    var elements = 0
    while start < list.count {
      elements += 1
      guard elements <= Self.mostElements else { return }
      let end = list.end(of: UInt8(ascii: ","), from: start)
      let range = MediaRange(list.extracting(start..<end))
      if let form = range.form, range.weight > best.weight { best = (form, range.weight) }
      start = end + 1
    }
    self = best.form
  }

  private static let longestAccept = 1024
  private static let mostElements = 32
}

/// An element of `Accept` (RFC 9110 §12.5.1).
private struct MediaRange {
  let form: TokenResponse.Form?
  /// The weight in thousandths. A malformed weight counts as 0.
  let weight: Int

  init(_ element: Span<UInt8>) {
    var end = element.end(of: UInt8(ascii: ";"), from: 0)
    form = Self.form(element.extracting(element.trimmingWhitespace(0..<end)))
    var weight: Int?
    while form != nil, weight == nil, end < element.count {
      let start = end + 1
      end = element.end(of: UInt8(ascii: ";"), from: start)
      weight = Self.weight(element.extracting(element.trimmingWhitespace(start..<end)))
    }
    self.weight = weight ?? 1000
  }

  private static func form(_ type: Span<UInt8>) -> TokenResponse.Form? {
    func isNamed(_ name: StaticString) -> Bool { type.equalsIgnoringCase(0..<type.count, name) }
    if isNamed("application/jwt") { return .jwt }
    if isNamed("text/plain") || isNamed("text/*") { return .text }
    if isNamed("*/*") || isNamed("application/*") || isNamed("application/json") { return .json }
    return nil
  }

  /// Returns the value of `q=0.5`; nil for another parameter.
  private static func weight(_ parameter: Span<UInt8>) -> Int? {
    guard parameter.count >= 2, parameter.equalsIgnoringCase(0..<2, "q=") else { return nil }
    return parameter.qualityValue(in: 2..<parameter.count)
  }
}

extension Span<UInt8> {
  /// Returns the next index of `separator` outside of quoted strings, or the end.
  fileprivate func end(of separator: UInt8, from start: Int) -> Int {
    var index = start
    var isQuoted = false
    while index < count, isQuoted || self[index] != separator {
      if self[index] == UInt8(ascii: "\"") { isQuoted.toggle() }
      // A quoted pair (RFC 9110 §5.6.4).
      index += isQuoted && self[index] == UInt8(ascii: "\\") ? 2 : 1
    }
    return Swift.min(index, count)
  }
}
