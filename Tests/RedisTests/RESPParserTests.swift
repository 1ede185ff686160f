import Testing

@testable import Redis

@Suite("The parser of replies")
struct RESPParserTests {
  struct Case: Sendable, CustomTestStringConvertible {
    let text: String
    let value: RESPValue
    var testDescription: String { text.debugDescription }
    init(_ text: String, _ value: RESPValue) { (self.text, self.value) = (text, value) }
  }

  static func text(_ text: String) -> RESPValue { .text(Array(text.utf8)) }

  static let cases = [
    Case("+OK\r\n", text("OK")),
    Case("+\r\n", text("")),
    Case("-ERR no\r\n", .error(Array("ERR no".utf8))),
    Case(":0\r\n", .integer(0)),
    Case(":-42\r\n", .integer(-42)),
    Case(":+7\r\n", .integer(7)),
    Case(":9223372036854775807\r\n", .integer(.max)),
    Case("$0\r\n\r\n", text("")),
    Case("$5\r\na\r\nbc\r\n", text("a\r\nbc")),
    Case("$-1\r\n", .null),
    Case("*-1\r\n", .null),
    Case("_\r\n", .null),
    Case("*0\r\n", .array([])),
    Case("*2\r\n:1\r\n$1\r\na\r\n", .array([.integer(1), text("a")])),
    Case("*2\r\n*1\r\n:1\r\n*0\r\n", .array([.array([.integer(1)]), .array([])])),
    Case("%1\r\n+a\r\n:1\r\n", .array([text("a"), .integer(1)])),
    Case(">3\r\n$7\r\nmessage\r\n+c\r\n+p\r\n", .push([text("message"), text("c"), text("p")])),
  ]

  @Test("reads each type, in any pieces", arguments: cases)
  func types(_ value: Case) throws {
    let bytes = Array((value.text + ":99\r\n").utf8)
    for cut in 0...bytes.count {
      var parser = RESPParser()
      var found: [RESPValue] = []
      var unread: [UInt8] = []
      for piece in [bytes[..<cut], bytes[cut...]] {
        unread += piece
        var position = 0
        while let value = try parser.next(in: unread.span, from: &position) { found.append(value) }
        unread.removeFirst(position)
      }
      #expect(found == [value.value, .integer(99)], "cut at \(cut)")
      #expect(parser.isAtStart && unread.isEmpty)
    }
  }

  @Test(
    "refuses what is no reply",
    arguments: [
      "x\r\n", "\r\n", ":\r\n", ":-\r\n", ":1a\r\n", ":9223372036854775808\r\n", "$-2\r\n", "$x\r\n", "$1\r\nab\r\n",
      "*-2\r\n", "*1\r\n>1\r\n", "+a\rb\r\n", "$1\r\na\rx", "$?\r\n", "*?\r\n", ":123456789012345678901\r\n",
      "#t\r\n", ",3.25\r\n", "(1\r\n", "!1\r\nE\r\n", "=5\r\ntxt:a\r\n", "~1\r\n:1\r\n", "|1\r\n+a\r\n:9\r\n+OK\r\n",
    ])
  func malformed(_ text: String) {
    #expect(throws: RESPError.malformed) { try Self.parse(text) }
  }

  @Test("refuses replies beyond its limits, before it has their content")
  func limits() {
    var limits = RESPLimits()
    (limits.string, limits.line, limits.values, limits.depth, limits.total) = (10, 20, 6, 2, 15)
    for text in [
      "$11\r\n", "+" + String(repeating: "a", count: 40), "+" + String(repeating: "a", count: 21) + "\r\n",
      "*7\r\n", "*3\r\n*3\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n",
      "*1\r\n*1\r\n*1\r\n", "*2\r\n$8\r\n12345678\r\n$8\r\n",
    ] {
      #expect(throws: RESPError.tooLarge, "\(text)") { try Self.parse(text, limits) }
    }
    #expect(throws: Never.self) {
      try Self.parse("+" + String(repeating: "a", count: 19) + "\r\n", limits)
      try Self.parse("*2\r\n$8\r\n12345678\r\n$7\r\n1234567\r\n$8\r\n12345678\r\n", limits)
    }
  }

  private static func parse(_ text: String, _ limits: RESPLimits = RESPLimits()) throws {
    var parser = RESPParser(limits)
    var position = 0
    while try parser.next(in: Array(text.utf8).span, from: &position) != nil {}
  }
}
