import CatalogProxy
import Testing

/// Request fields for which a request with content to `/v1/me` is refused, and the reason.
struct RefusedFields: CustomTestStringConvertible, Sendable {
  let testDescription: String
  let lines: KeyValuePairs<String, String>
  let reason: FieldRefusal

  init(_ label: String, _ lines: KeyValuePairs<String, String>, _ reason: FieldRefusal) {
    testDescription = label
    self.lines = lines
    self.reason = reason
  }

  static let all: [Self] = [
    .init("two user tokens", ["Music-User-Token": "a", "music-user-token": "b"], .repeated("music-user-token")),
    .init("an empty user token", ["Music-User-Token": ""], .malformed("music-user-token")),
    .init("a user token with a space", ["Music-User-Token": "a b"], .malformed("music-user-token")),
    .init("a user token with a tab", ["Music-User-Token": "a\tb"], .malformed("music-user-token")),
    .init("a user token beyond ASCII", ["Music-User-Token": "ä"], .malformed("music-user-token")),
    .init("a user token with a line end", ["Music-User-Token": "a\r\nX: y"], .malformed("music-user-token")),
    .init(
      "a user token of 4097 bytes", ["Music-User-Token": String(repeating: "a", count: 4097)],
      .malformed("music-user-token")),
    .init(
      "two Connection fields", ["Music-User-Token": "a", "Connection": "close", "connection": "x"],
      .repeated("connection")),
    .init("two preconditions", ["If-Match": "\"a\"", "if-match": "\"b\""], .repeated("if-match")),
    .init("two content types", ["Content-Type": "a/b", "content-type": "c/d"], .repeated("content-type")),
    .init("a content type with a NUL", ["Content-Type": "a/b\0"], .malformed("content-type")),
    .init("a part of a representation", ["Content-Range": "bytes 0-1/2"], .unsupported("content-range")),
  ]
}
