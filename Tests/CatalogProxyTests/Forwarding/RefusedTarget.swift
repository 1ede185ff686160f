import CatalogProxy
import Testing

/// A request target that must not be forwarded, and the reason.
struct RefusedTarget: CustomTestStringConvertible, Sendable {
  let testDescription: String
  let bytes: [UInt8]
  let reason: TargetRefusal

  init(_ label: String, _ target: String, _ reason: TargetRefusal) {
    testDescription = label
    bytes = Array(target.utf8)
    self.reason = reason
  }

  static let all = paths + characters + queries + absent + limits

  private static let paths: [Self] = [
    .init("nothing", "", .notAbsolute),
    .init("relative", "v1/catalog/us", .notAbsolute),
    .init("absolute form", "https://api.music.apple.com/v1/test", .notAbsolute),
    .init("root", "/", .emptySegment),
    .init("two slashes in front", "//v1/catalog/us", .emptySegment),
    .init("another host in front", "//evil.example/v1/test", .emptySegment),
    .init("two slashes inside", "/v1//catalog/us", .emptySegment),
    .init("two slashes at the end", "/v1/catalog/us//", .emptySegment),
    .init("two slashes at the end before a query", "/v1/catalog/us/albums/1//?l=de", .emptySegment),
    .init("an encoded slash at the end", "/v1/catalog/us%2F", .encodedSlash),
    .init("one dot", "/v1/./catalog/us", .dotSegment),
    .init("two dots", "/v1/catalog/us/../../me/library", .dotSegment),
    .init("two dots at the end", "/v1/catalog/us/..", .dotSegment),
    .init("two dots encoded", "/v1/catalog/us/%2e%2e/me", .dotSegment),
    .init("two dots, half of them encoded", "/v1/catalog/us/.%2E/me", .dotSegment),
    .init("one dot encoded", "/v1/catalog/%2e/us", .dotSegment),
    .init("three dots", "/v1/catalog/us/.../me", .dotSegment),
    .init("two dots encoded twice", "/v1/catalog/us/%252e%252e/me", .doubleEncoding),
    .init("two dots behind an encoded slash", "/v1/catalog/us/..%2fme", .encodedSlash),
    .init("encoded slash in capitals", "/v1/catalog/us%2Falbums", .encodedSlash),
    .init("slash encoded twice", "/v1/catalog/us%252Falbums", .doubleEncoding),
    .init("backslash", "/v1/catalog/us\\albums", .backslash),
    .init("encoded backslash", "/v1/catalog/us%5c..%5cme", .backslash),
    .init("backslash in front", "/\\evil.example/v1/test", .backslash),
    .init("path parameter", "/v1/catalog/us;x=1/albums/1", .pathParameter),
    .init("path parameter before dots", "/v1/catalog/us/..;/me", .pathParameter),
    .init("encoded path parameter", "/v1/catalog/us%3bx/albums/1", .pathParameter),
    .init("session in a parameter", "/v1/catalog/us/albums/1;jsessionid=1.css", .pathParameter),
    .init("fragment", "/v1/catalog/us#/albums", .fragment),
    .init("encoded number sign", "/v1/catalog/us%23", .fragment),
  ]

  private static let characters: [Self] = [
    .init("NUL", "/v1/catalog/us\0", .controlByte),
    .init("encoded NUL", "/v1/catalog/us%00", .controlByte),
    .init("line end", "/v1/catalog/us\r\nHost: evil.example", .controlByte),
    .init("encoded line end", "/v1/catalog/us%0d%0aX: y", .controlByte),
    .init("tab", "/v1/catalog/us\t", .controlByte),
    .init("DEL", "/v1/catalog/us\u{7f}", .controlByte),
    .init("encoded DEL", "/v1/catalog/us%7F", .controlByte),
    .init("space", "/v1/catalog/us HTTP/1.1", .controlByte),
    .init("encoded space", "/v1/catalog/us%20/albums", .controlByte),
    .init("percent sign alone", "/v1/catalog/100%", .malformedEscape),
    .init("cut escape", "/v1/catalog/us/%2", .malformedEscape),
    .init("escape across segments", "/v1/catalog/us/%/2e", .malformedEscape),
    .init("escape of no number", "/v1/catalog/us/%zz", .malformedEscape),
    .init("escape with a sign", "/v1/catalog/us/%+2", .malformedEscape),
    .init("escape of Microsoft's", "/v1/catalog/us/%u002e", .malformedEscape),
    .init("beyond ASCII", "/v1/catalog/us/ä", .notASCII),
    .init("beyond ASCII, encoded", "/v1/catalog/us/%C3%A4", .notASCII),
    .init("no UTF-8", "/v1/catalog/us/%ff", .notASCII),
    .init("overlong slash", "/v1/catalog/us/..%c0%af..%c0%afme", .notASCII),
    .init("overlong dots", "/v1/catalog/us/%c0%ae%c0%ae/me", .notASCII),
    .init("fullwidth dots", "/v1/catalog/us/\u{ff0e}\u{ff0e}/me", .notASCII),
    .init("fraction slash", "/v1/catalog/us\u{2044}albums", .notASCII),
    .init("encoded question mark", "/v1/catalog/us%3fids=1", .reservedCharacter),
    .init("plus", "/v1/catalog/us/a+b", .reservedCharacter),
    .init("comma", "/v1/catalog/us/albums/1,2", .reservedCharacter),
    .init("asterisk", "/v1/catalog/us/*", .reservedCharacter),
    .init("at sign", "/v1/catalog/us/@evil.example", .reservedCharacter),
    .init("quote", "/v1/catalog/us/\"", .reservedCharacter),
    .init("angle bracket", "/v1/catalog/us/<a>", .reservedCharacter),
  ]

  private static let queries: [Self] = [
    .init("NUL in the query", "/v1/catalog/us?term=a\0", .controlByte),
    .init("encoded NUL in the query", "/v1/catalog/us?term=a%00", .controlByte),
    .init("line end in the query", "/v1/catalog/us?term=a\r\nX: y", .controlByte),
    .init("encoded line end in the query", "/v1/catalog/us?term=a%0d%0aX:%20y", .controlByte),
    .init("space in the query", "/v1/catalog/us?term=a b", .controlByte),
    .init("DEL in the query", "/v1/catalog/us?term=\u{7f}", .controlByte),
    .init("fragment in the query", "/v1/catalog/us?term=a#b", .fragment),
    .init("percent sign in the query", "/v1/catalog/us?term=100%", .malformedEscape),
    .init("cut escape in the query", "/v1/catalog/us?term=%e", .malformedEscape),
    .init("escape across parameters", "/v1/catalog/us?term=%&2f", .malformedEscape),
    .init("escape of no number in the query", "/v1/catalog/us?term=%gg", .malformedEscape),
    .init("beyond ASCII in the query", "/v1/catalog/us?term=ä", .queryByte),
    .init("an emoji in the query", "/v1/catalog/us?term=\u{1f3b8}", .queryByte),
    .init("Latin-1 in the query", "/v1/catalog/us?term=caf%e9", .queryNotUTF8),
    .init("overlong letter in the query", "/v1/catalog/us?%c1%b2elate=library", .queryNotUTF8),
    .init("surrogate in the query", "/v1/catalog/us?term=%ed%a0%80", .queryNotUTF8),
    .init("cut UTF-8 in the query", "/v1/catalog/us?term=%c3&l=%a4", .queryNotUTF8),
  ]

  private static let absent: [Self] = [
    .init("version alone", "/v1", .unknownPath),
    .init("another version", "/v2/catalog/us", .unknownPath),
    .init("version in capitals", "/V1/catalog/us", .unknownPath),
    .init("catalog in capitals", "/v1/Catalog/us", .unknownPath),
    .init("catalog and more", "/v1/catalogue/us", .unknownPath),
    .init("catalog without a storefront", "/v1/catalog", .unknownPath),
    .init("storefronts and more", "/v1/storefronts-x", .unknownPath),
    .init("below the test", "/v1/test/1", .unknownPath),
    .init("me alone", "/v1/me", .unknownPath),
    .init("language alone", "/v1/language/us", .unknownPath),
    .init("below the language tag", "/v1/language/us/tag/x", .unknownPath),
    .init("another resource of languages", "/v1/language/us/tags", .unknownPath),
    .init("editorial", "/v1/editorial/us/rooms", .unknownPath),
    .init("storefront of three capitals", "/v1/catalog/USA/albums/1", .storefront),
    .init("storefront of three letters", "/v1/catalog/usa/albums/1", .storefront),
    .init("storefront of one letter", "/v1/catalog/u/albums/1", .storefront),
    .init("storefront with a digit", "/v1/catalog/u1/albums/1", .storefront),
    .init("storefront of a language", "/v1/language/en-US/tag", .storefront),
  ]

  private static let limits: [Self] = [
    .init("path of 2049 bytes", "/v1/catalog/us/" + String(repeating: "a", count: 2034), .pathTooLong),
    .init("segment of 257 bytes", "/v1/catalog/us/" + String(repeating: "a", count: 257), .segmentTooLong),
    .init("17 segments", "/v1/catalog/us" + String(repeating: "/a", count: 14), .tooManySegments),
    .init("129 parameters", "/v1/catalog/us?" + String(repeating: "&", count: 128), .tooManyParameters),
  ]
}
