import Testing

@testable import Telemetry

@Suite("A request's identifier")
struct RequestIDTests {
  @Test("is 32 hexadecimal digits, and never the same twice")
  func generator() {
    var generator = RequestIDGenerator()
    let identifiers = (0..<10_000).map { _ in generator.next() }
    #expect(Set(identifiers).count == identifiers.count)
    #expect(identifiers.allSatisfy { $0.description.count == 32 && $0.description.allSatisfy(\.isHexDigit) })
    var other = RequestIDGenerator()
    #expect(!identifiers.contains(other.next()))
  }

  @Test("is SplitMix64 after the generator's own half")
  func vector() {
    // The first output of SplitMix64 from 0, of the reference implementation.
    var generator = RequestIDGenerator(high: 0x0123_4567_89AB_CDEF, start: 0)
    #expect(generator.next().description == "0123456789abcdefe220a8397b1dcdaf")
  }

  @Test(
    "is taken from a proxy if it is safe anywhere",
    arguments: [
      ("a", true), ("0af7651916cd43dd8448eb211c80319c", true), ("A.b_c-9", true),
      (String(repeating: "x", count: 64), true),
      (String(repeating: "x", count: 65), false), ("", false), ("a b", false), ("a\"b", false), ("a\nb", false),
      ("a/b", false), ("é", false), ("a\0", false), ("<script>", false),
    ])
  func foreign(_ text: String, _ isSafe: Bool) {
    #expect(RequestID(text)?.description == (isSafe ? text : nil))
  }
}
