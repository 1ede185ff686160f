import Bytes
import HTTPMessages
import Testing

@testable import DeveloperToken

@Suite("The claims of a token")
struct ClaimsTests {
  @Test("have one exact JSON form")
  func json() throws {
    let bare = Claims(issuer: try Samples.team(), issuedAt: 1, expiresAt: 2, origins: [])
    #expect(String(decoding: bare.json, as: UTF8.self) == #"{"iss":"TEAM123456","iat":1,"exp":2}"#)
    let origins = try [Origin("https://a.example"), Origin("http://[::1]:8080")]
    let bound = Claims(issuer: try Samples.team(), issuedAt: 1, expiresAt: 2, origins: origins)
    #expect(
      String(decoding: bound.json, as: UTF8.self)
        == #"{"iss":"TEAM123456","iat":1,"exp":2,"origin":["https://a.example","http://[::1]:8080"]}"#)
  }

  @Test("the header of a token has alg, kid and typ")
  func header() throws {
    let header = Claims.header(keyID: try Samples.keyID())
    #expect(String(decoding: header, as: UTF8.self) == #"{"alg":"ES256","kid":"ABC123DEFG","typ":"JWT"}"#)
  }
}

@Suite("Base64url")
struct Base64Tests {
  static let vectors: [(bytes: String, text: String)] = [
    ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"),
    ("foobar", "Zm9vYmFy"),
  ]

  @Test("follows RFC 4648 §10, without padding", arguments: vectors)
  func agrees(bytes: String, text: String) {
    #expect(Base64Text.encodeURL(Array(bytes.utf8)) == text)
    let input = Array(text.utf8)
    #expect(Base64.decodeURL(input.span) == Array(bytes.utf8))
    #expect(Base64.encodedCount(bytes.utf8.count) == text.utf8.count)
  }

  @Test("decodes to the encoded bytes")
  func roundTrip() {
    for count in 0..<40 {
      let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 67 &+ count &* 31) }
      let text = Array(Base64Text.encodeURL(bytes).utf8)
      #expect(Base64.decodeURL(text.span) == bytes)
    }
  }

  @Test(
    "accepts only the canonical encoding",
    arguments: ["Z", "Zg==", "Zg=", "Zh", "Zm9", "Zm+v", "Zm/v", "Zm 9v", "Zm9v\n", "Zm9vY", "Zmé"])
  func refused(text: String) {
    let input = Array(text.utf8)
    #expect(Base64.decodeURL(input.span) == nil)
  }
}
