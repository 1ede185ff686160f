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

  @Test(
    "has only printable ASCII for a terminal, which the reader reads as the same string",
    arguments: [
      ("", #""""#), ("a/b", #""a/b""#), ("\"\\", #""\"\\""#), ("\u{0}\n\u{7F}", #""\u0000\u000a\u007f""#),
      ("a\u{1B}[2J\u{9B}é🎵", #""a\u001b[2J\u009b\u00e9\ud83c\udfb5""#),
    ])
  func ascii(value: String, text: String) {
    #expect(JSONValue.text(value).ascii == text)
    #expect(JSONReader.read(Array(text.utf8)) == .text(value))
  }
}
