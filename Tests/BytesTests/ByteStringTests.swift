import Testing

@testable import Bytes

@Suite("Text from outside")
struct ByteStringTests {
  @Test("is compared by bytes, so that canonically equivalent texts differ")
  func equivalence() {
    let (composed, decomposed) = ("\u{E9}", "e\u{301}")
    #expect(composed == decomposed)
    #expect(ByteString(composed) != ByteString(decomposed))
    #expect(ByteString(composed) == composed && ByteString(composed) != decomposed)
    #expect(Set<ByteString>(["\u{E9}", "e\u{301}"]).count == 2)
    #expect(ByteString(composed).hashValue == ByteString(Array(composed.utf8)).hashValue)
  }

  @Test("is sorted by bytes")
  func order() {
    #expect([ByteString("b"), "a", "", "\u{E9}", "e\u{301}"].sorted() == ["", "a", "b", "e\u{301}", "\u{E9}"])
  }

  @Test("has its ASCII letters in lower case, and nothing else changed")
  func lowercase() {
    #expect(ByteString("AZ@[\u{C9}9").lowercasedASCII == "az@[\u{C9}9")
  }

  @Test("may be matched by literals")
  func patterns() {
    switch ByteString("iss") {
    case "iss": break
    default: Issue.record("no match")
    }
    #expect(ByteString("a").isASCII && !ByteString("\u{E9}").isASCII)
    #expect("\(ByteString("text"))" == "text")
  }
}
