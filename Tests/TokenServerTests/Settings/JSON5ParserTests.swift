import JSON
import Testing

@testable import ServerSettings
@testable import TokenServer

@Suite("The JSON5 parser")
struct JSON5ParserTests {
  @Test(
    "reads values of every kind",
    arguments: [
      ("null", .null), ("true", true), (" false ", false), ("0", 0), ("-12", .number("-12")), ("+12", 12),
      ("0x1F", 31), ("-0xf", .number("-15")), ("9223372036854775807", .whole(Int.max)),
      ("9223372036854775808", .number("9223372036854775808")),
      (".5", .number(".5")), ("5.", .number("5.")), ("1e3", .number("1e3")), ("-Infinity", .number("-Infinity")),
      ("NaN", .number("NaN")), ("\"a'b\"", .text("a'b")), ("'a\"b'", .text("a\"b")),
      (#"'\n\t\\\'\x41\u00e9\ud83c\udfb5'"#, .text("\n\t\\'Aé🎵")), ("'a\\\nb'", .text("ab")),
      ("'a\\\r\nb'", .text("ab")), ("[]", .array([])), ("[1,]", [1]),
      ("[1, [2]]", [1, [2]]), ("{}", .object([])),
      ("{a: 1, 'b c': 2, \"d\": 3,}", ["a": 1, "b c": 2, "d": 3]),
      ("// one\n{ /* two */ a /**/ : // three\n 1 } // four", ["a": 1]),
      ("\u{FEFF}{a:\u{A0}1}", ["a": 1]), ("{é: 1}", ["é": 1]),
    ] as [(String, JSONValue)])
  func values(_ text: String, _ value: JSONValue) throws {
    #expect(try JSON5Parser.parse(text) == value)
  }

  @Test(
    "rejects malformed text and gives the position",
    arguments: [
      ("", "line 1, column 1: the text ends"), ("// only", "line 1, column 8: the text ends"),
      ("{\n  a: 1\n  b: 2\n}", "line 3, column 3: a \",\" or \"}\" is missing"), ("{a 1}", "line 1, column 4: a \":\""),
      ("{a: 1, a: 2}", "line 1, column 8: the object already has a member \"a\""),
      ("{1a: 1}", "a member's name is missing"),
      ("{,}", "a member's name is missing"), ("[1 2]", "column 4: a \",\" or \"]\""), ("[,]", "a value is missing"),
      ("{a: }", "a value is missing"), ("{a: b}", "line 1, column 5: this is not a value; text must be in quotes"),
      ("{a: “b”}", "line 1, column 5: this is a curly quotation mark"),
      ("{‘a’: 1}", "line 1, column 2: this is a curly"),
      ("# YAML\n---\nserver:\n  port: 1\n", "line 1, column 1: this looks like YAML; in JSON5, braces enclose"),
      ("server: { port: 1 }", "this looks like YAML"), ("https://a.example", "this is not a value; text must be"),
      ("01", "this is not a value"), ("0x", "this is not a value"), ("1e", "this is not a value"),
      ("- 1", "this is not a value"),
      ("--1", "this is not a value"), ("1 2", "line 1, column 3: there is text"),
      ("'a", "line 1, column 1: this string is never"),
      ("{a: 'x\ny'}", "line 1, column 5: this string is not closed on its line"),
      ("/* x", "this comment is never closed"),
      (#"'\ud800'"#, "half of a surrogate pair"), (#"'\udc00'"#, "half of a surrogate pair"),
      (#"'\ud800\u0041'"#, "half of a surrogate pair"), (#"'\u12'"#, "4 hexadecimal digits"),
      (#"'\xg0'"#, "2 hexadecimal digits"), (#"'\x+1'"#, "2 hexadecimal digits"), (#"'\1'"#, "backslash"),
      (String(repeating: "[", count: 100_000), "nested too deeply"),
    ])
  func failures(_ text: String, _ description: String) {
    let failure = #expect(throws: JSON5Failure.self) { try JSON5Parser.parse(text) }
    #expect(failure?.description.contains(description) == true, "\(failure?.description ?? "")")
  }

  @Test("rejects invalid UTF-8")
  func invalidUTF8() {
    #expect(throws: JSON5Failure.self) { try JSON5Parser.parse([0x22, 0xFF, 0x22]) }
  }

  @Test("does not crash on any prefix of a document")
  func prefixes() {
    let document = #"{ a: [1, .5, 'x\u00e9\ud83c\udfb5\x41', "y"], /* c */ b: { "c": true }, // d"# + "\n e: 0x1F, }"
    let text = Array(document.utf8)
    for end in text.indices {
      #expect(throws: JSON5Failure.self) { try JSON5Parser.parse(Array(text[..<end])) }
    }
    #expect(throws: Never.self) { try JSON5Parser.parse(text) }
  }
}
