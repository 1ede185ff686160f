import Testing

@testable import DeveloperToken

@Suite("An identifier from Apple")
struct IdentifierTests {
  @Test("has ten characters of A–Z and 0–9", arguments: ["ABC123DEFG", "0000000000", "ZZZZZZZZZZ"])
  func accepted(text: String) throws {
    #expect(try KeyID(text).description == text)
    #expect(try TeamID(text).description == text)
  }

  static let refused: [(text: String, says: String)] = [
    ("", "empty"), ("ABC123DEF", "has 9"), ("ABC123DEFGH", "has 11"), ("abc123defg", "lower-case"),
    ("ABC123DEF ", "A–Z"), ("ABC123DEF\n", "A–Z"), ("ABC-23DEFG", "A–Z"), ("ÀBC123DEF", "A–Z"),
    ("ÀBC123DEFG", "has 11"),
  ]

  @Test("is refused in any other form, with the reason", arguments: refused)
  func refusal(text: String, says: String) throws {
    #expect("\(try #require(throws: IdentifierError.self) { try KeyID(text) })".contains(says))
    #expect("\(try #require(throws: IdentifierError.self) { try TeamID(text) })".contains("team ID"))
  }
}
