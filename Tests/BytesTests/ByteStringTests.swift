import Testing

@testable import Bytes

@Suite("A byte string")
struct ByteStringTests {
  @Test("compares by bytes, so canonically equivalent texts differ")
  func equivalence() {
    let (composed, decomposed) = ("\u{E9}", "e\u{301}")
    #expect(composed == decomposed)
    #expect(ByteString(composed) != ByteString(decomposed))
    #expect(ByteString(composed) == composed && ByteString(composed) != decomposed)
    #expect(Set<ByteString>(["\u{E9}", "e\u{301}"]).count == 2)
    #expect(ByteString(composed).hashValue == ByteString(Array(composed.utf8)).hashValue)
  }

  @Test("sorts by bytes")
  func order() {
    #expect([ByteString("b"), "a", "", "\u{E9}", "e\u{301}"].sorted() == ["", "a", "b", "e\u{301}", "\u{E9}"])
  }

  @Test("lowercases only ASCII letters")
  func lowercase() {
    #expect(ByteString("AZ@[\u{C9}9").lowercasedASCII == "az@[\u{C9}9")
  }

  @Test("matches literal patterns, knows whether its bytes are ASCII and describes itself as text")
  func patterns() {
    switch ByteString("iss") {
    case "iss": break
    default: Issue.record("no match")
    }
    #expect(ByteString("a").isASCII && !ByteString("\u{E9}").isASCII)
    #expect("\(ByteString("text"))" == "text")
  }
}
