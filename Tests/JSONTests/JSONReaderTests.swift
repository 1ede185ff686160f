import Bytes
import Testing

@testable import JSON

@Suite("The JSON reader")
struct JSONReaderTests {
  static let values: [(text: String, value: JSONValue)] = [
    ("null", .null), (" true ", .bool(true)), ("false", .bool(false)), ("\"\"", .string("")), ("{}", .object([])),
    ("[]", .array([])), ("[ 1 , 2 ]", .array([.number("1"), .number("2")])), ("-0", .number("-0")),
    ("-1.50e+10", .number("-1.50e+10")), ("1E-2", .number("1E-2")),
    (#""\"\\\/\b\f\n\r\t""#, .string("\"\\/\u{8}\u{C}\n\r\t")),
    (#""\u00e9\uD83D\ude00é😀""#, .string("é😀é😀")),
    (
      #"{"a":{"a":1},"a":2}"#,
      .object([
        .init(name: "a", value: .object([.init(name: "a", value: .number("1"))])),
        .init(name: "a", value: .number("2")),
      ])
    ),
    (
      String(repeating: "[", count: 16) + String(repeating: "]", count: 16),
      (0..<15).reduce(.array([])) { value, _ in
        .array([value])
      }
    ),
  ]

  @Test("reads every kind of value of RFC 8259", arguments: values)
  func reads(text: String, value: JSONValue) { #expect(JSONReader.read(Array(text.utf8)) == value) }

  @Test(
    "refuses text that is not valid JSON, and nesting deeper than 16 levels",
    arguments: [
      "", " ", "nul", "True", "NaN", "1 2", "01", "-", "+1", ".5", "1.", "1e", "1e+", "0x1", "'a'", "\"", "\"\\\"",
      "\"\\x\"",
      "\"\\u12\"", "\"\\u12g4\"", "\"\\uD800\"", "\"\\uD800\\u0041\"", "\"\\uDC00\"", "\"a\nb\"", "\"\0\"", "[", "[1",
      "[1,", "[1,]",
      "[,1]", "[1 2]", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,}", "{a:1}", "{1:1}", "{\"a\" 1}", "[]]", "{}}",
      "/**/1",
      String(repeating: "[", count: 17) + String(repeating: "]", count: 17), String(repeating: "[", count: 10_000),
    ])
  func refuses(text: String) { #expect(JSONReader.read(Array(text.utf8)) == nil) }

  @Test(
    "refuses text that is not UTF-8",
    arguments: [[0x22, 0xFF, 0x22], [0x22, 0xC3, 0x22], [0x22, 0xED, 0xA0, 0x80, 0x22]])
  func notUTF8(bytes: [UInt8]) { #expect(JSONReader.read(bytes) == nil) }

  @Test("compares member names by their bytes and reports repeated names")
  func names() throws {
    let object = try #require(JSONReader.read(Array("{\"\u{E9}\":1,\"e\u{301}\":2,\"b\":3,\"a\":4}".utf8)))
    #expect(object.repeatedNames.isEmpty)
    #expect(object["e\u{301}"] == .number("2"))
    let repeated = JSONReader.read(Array("{\"b\":1,\"a\":2,\"\\u0062\":3,\"a\":4,\"a\":5}".utf8))
    #expect(repeated?.repeatedNames == ["a", "b"])
  }

  @Test("reads no more values than the limit, nested values included")
  func limit() {
    let text = Array("{\"a\":[1,2]}".utf8)
    #expect(JSONReader.read(text, values: 4) != nil)
    #expect(JSONReader.read(text, values: 3) == nil)
  }

  @Test("refuses every proper prefix of an object")
  func everyPrefix() {
    let text = Array(#"{"a":[1,true,null,"\u00e9\n"],"b":{"c":-1.5e3}}"#.utf8)
    #expect(JSONReader.read(text) != nil)
    for count in 0..<text.count { #expect(JSONReader.read(Array(text[..<count])) == nil) }
  }
}
