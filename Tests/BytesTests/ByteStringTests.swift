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

  @Test("a comparison with a literal ignores the case of ASCII letters only, for each byte at every position")
  func ignoringCase() {
    let literal: StaticString = "za-access-ctrl-[09]@x"
    let lowercase = Array("za-access-ctrl-[09]@x".utf8)
    for place in lowercase.indices {
      for byte in UInt8.min...UInt8.max {
        var bytes = Array("ZA-Access-CTRL-[09]@X".utf8)
        bytes[place] = byte
        let isLetter = UInt8(ascii: "a")...UInt8(ascii: "z") ~= lowercase[place]
        let isEqual = byte == lowercase[place] || isLetter && byte == lowercase[place] - 0x20
        #expect(bytes.span.equalsIgnoringCase(bytes.indices, literal) == isEqual, "\(byte) at \(place)")
      }
    }
    let isShorterEqual = lowercase.span.equalsIgnoringCase(1..<lowercase.count, literal)
    #expect(!isShorterEqual)
  }
}
