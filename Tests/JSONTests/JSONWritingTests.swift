import JSON
import Testing

@Suite("A JSON value that the program builds")
struct JSONWritingTests {
  @Test(
    "is the text that the reader reads as the same value",
    arguments: [
      (["a": 1, "b": [true, false, "x"]], #"{"a":1,"b":[true,false,"x"]}"#), ([], "[]"), (.null, "null"),
      (.text("\"\\\u{0}\n/é🎷"), #""\"\\\u0000\u000A/é🎷""#), (.whole(-5), "-5"), (.strings(["a", "b"]), #"["a","b"]"#),
      (.object(of: [("a", nil), ("b", "c")]), #"{"b":"c"}"#), (.number("1.50e3"), "1.50e3"),
    ] as [(JSONValue, String)])
  func text(value: JSONValue, text: String) {
    #expect(String(decoding: value.bytes, as: UTF8.self).lowercased() == text.lowercased())
    #expect(JSONReader.read(value.bytes) == value)
  }
}
