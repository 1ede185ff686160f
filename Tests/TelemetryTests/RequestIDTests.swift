import Testing

@testable import Telemetry

@Suite("A request identifier")
struct RequestIDTests {
  @Test("is 32 hexadecimal digits and unique")
  func generator() {
    var generator = RequestIDGenerator()
    let identifiers = (0..<10_000).map { _ in generator.next() }
    #expect(Set(identifiers).count == identifiers.count)
    #expect(identifiers.allSatisfy { $0.description.count == 32 && $0.description.allSatisfy(\.isHexDigit) })
    var other = RequestIDGenerator()
    #expect(!identifiers.contains(other.next()))
  }

  @Test("consists of the generator's high half and a SplitMix64 output")
  func vector() {
    // The first output of the SplitMix64 reference implementation for the seed 0.
    var generator = RequestIDGenerator(high: 0x0123_4567_89AB_CDEF, start: 0)
    #expect(generator.next().description == "0123456789abcdefe220a8397b1dcdaf")
  }

  @Test(
    "from a proxy is accepted only if all its characters are safe and its length is at most 64",
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
