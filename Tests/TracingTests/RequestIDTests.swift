import Testing
import Tracing

@Suite("A request identifier")
struct RequestIDTests {
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
