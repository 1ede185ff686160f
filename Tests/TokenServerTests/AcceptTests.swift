import Testing

@testable import TokenServer

@Suite("The Accept field")
struct AcceptTests {
  private static func form(_ accept: String) -> TokenForm {
    TokenForm(accept: Array(accept.utf8)[...])
  }

  @Test(
    "selects the best available form of the token",
    arguments: [
      ("text/plain", TokenForm.text), ("text/*", .text), ("TEXT/PLAIN", .text), ("application/jwt", .jwt),
      ("*/*", .json), ("application/*", .json), ("image/png", .json), ("", .json), (",,", .json), (" , \t", .json),
      ("image/png , text/plain", .text), ("text/plain;charset=utf-8", .text),
      ("text/plain ; charset=utf-8 ; q=1", .text),
      ("text/plain;a=\"x,application/jwt;q=0\\\",\";q=0.5,application/jwt;q=0.4", .text),
      ("text/plain;q=0.5, application/jwt", .jwt), ("text/plain;q=0.5,application/jwt;q=0.500", .text),
      ("application/jwt;q=0.2, application/json;q=0.3", .json), ("text/plain;a=\"", .text), ("text/plainx", .json),
    ])
  func forms(_ accept: String, _ form: TokenForm) {
    #expect(Self.form(accept) == form)
  }

  @Test(
    "accepts only weights of the grammar in RFC 9110 §12.4.2",
    arguments: [
      ("1", true), ("1.", true), ("1.000", true), ("0.001", true), ("0.5", true), ("0", false), ("0.000", false),
      ("0x1", false), ("1e0", false), ("1.001", false), ("0.0001", false), ("1.0000", false), ("2", false),
      (".5", false), ("+1", false), ("", false), ("nan", false), ("0. 5", false), ("00.5", false), ("\"1\"", false),
    ])
  func weights(_ weight: String, _ isWanted: Bool) {
    #expect(Self.form("text/plain;q=\(weight)") == (isWanted ? .text : .json))
    #expect(Self.form("text/plain; Q=\(weight) ") == (isWanted ? .text : .json))
  }

  @Test("gets JSON if its value exceeds the limits on length and elements")
  func bounds() {
    #expect(Self.form(String(repeating: "a,", count: 31) + "text/plain") == .text)
    #expect(Self.form(String(repeating: "a,", count: 32) + "text/plain") == .json)
    #expect(Self.form("text/plain," + String(repeating: "a", count: 1013)) == .text)
    #expect(Self.form("text/plain," + String(repeating: "a", count: 1014)) == .json)
  }
}
