import Bytes
import HTTP1
import HTTPTypes
import Testing

@Suite("Field lines")
struct FieldLinesTests {
  private func text(_ fields: FieldLines) -> [String] {
    fields.lines.map { line in
      "\(fields.bytes.span.string(in: line.name)): \(fields.bytes.span.string(in: line.value))"
    }
  }

  @Test("keep their order, their repetitions and the case of their names")
  func order() {
    let fields = FieldLines(
      HTTPFields([
        HTTPField(name: .vary, value: "a"), HTTPField(name: .eTag, value: "\"1\""), HTTPField(name: .vary, value: "b"),
      ]))
    #expect(text(fields) == ["Vary: a", "ETag: \"1\"", "Vary: b"])
    #expect(fields[values: .vary] == ["a", "b"])
    #expect(fields[.vary] == "a, b")
    #expect(fields.text(of: "vary") == "a, b")
  }

  @Test("find a field in any case, and tell one line from several")
  func lookUp() {
    let fields: FieldLines = [.eTag: "\"1\"", .vary: "a"]
    #expect(fields.has("etag") && fields.has("vary") && !fields.has("age"))
    guard case .single(let range) = fields.value(of: "etag") else {
      Issue.record("not found")
      return
    }
    #expect(fields.bytes.span.string(in: range) == "\"1\"")
    var twice = fields
    twice.append("VARY", Array("b".utf8).span)
    #expect(twice.value(of: "vary") == .repeated && twice.value(of: "age") == .absent)
  }

  @Test("a control character in a value cannot end its line")
  func control() {
    var fields = FieldLines()
    fields.append("X-A", Array("a\r\nB: c\u{0}\u{7F}\td".utf8).span)
    #expect(text(fields) == ["X-A: a  B: c  \td"])
    var output: [UInt8] = []
    try? RequestSerializer.append(
      .get, target: Array("/".utf8).span, host: "h", fields: fields, framing: .none, to: &output)
    #expect(String(decoding: output, as: UTF8.self) == "GET / HTTP/1.1\r\nHost: h\r\nX-A: a  B: c  \td\r\n\r\n")
  }

  @Test("bytes that are not UTF-8 stay as they are")
  func obsoleteText() throws {
    var parser = ResponseHeadParser(answering: .get)
    let head = Array("HTTP/1.1 200 OK\r\nX-A: a".utf8) + [0xE9, 0xFF] + Array("\r\nContent-Length: 0\r\n\r\n".utf8)
    _ = try parser.parse(head.span)
    let fields = parser.head.fields
    #expect(fields.lines.count == 1)
    #expect(Array(fields.bytes[fields.lines[0].value]) == [0x61, 0xE9, 0xFF])
    var section = FieldSection.empty
    section.append(fields) { _, _ in true }
    #expect(section.bytes == Array("X-A: a".utf8) + [0xE9, 0xFF] + Array("\r\n".utf8))
  }

  @Test("removed lines and lines that are filtered out leave no bytes in a copy")
  func filter() {
    var fields: FieldLines = [.authorization: "secret", .accept: "a", .via: "b"]
    fields.remove(.authorization)
    fields[.accept] = "c"
    #expect(text(fields) == ["Via: b", "Accept: c"])
    let copy = fields.filter { name, bytes in bytes.equalsIgnoringCase(name, "via") }
    #expect(String(decoding: copy.bytes, as: UTF8.self) == "Via: b\r\n")
    var other = FieldLines()
    other.append("VIA", Array("x".utf8).span)
    #expect(
      fields.has(nameOf: other.lines[0], of: other)
        && !fields.filter { _, _ in false }.has(nameOf: other.lines[0], of: other))
  }

  @Test("are equal if their lines are, whatever other bytes they hold")
  func equality() {
    var fields: FieldLines = [.authorization: "secret", .accept: "a"]
    #expect(fields != [.accept: "a"])
    fields.remove(.authorization)
    var lowercase = FieldLines()
    lowercase.append("accept", Array("a".utf8).span)
    #expect(fields == lowercase)
    #expect(fields == [.accept: "a"] && fields != [.accept: "b"] && fields != [.accept: "a", .via: "b"])
  }

  @Test("tell a compression table which values it must not contain")
  func unindexed() {
    var secret = HTTPField(name: .authorization, value: "a")
    secret.indexingStrategy = .disallow
    var fields = FieldLines(HTTPFields([secret, HTTPField(name: .accept, value: "b")]))
    fields.append("traceparent", Array("c".utf8).span, isUnindexed: true)
    #expect(fields.lines.map(\.isUnindexed) == [true, false, true])
  }

  @Test("become a section and are read from it, and only from a whole one")
  func section() throws {
    for fields in [[:], [.accept: "a"], [.vary: "a", .eTag: "\"1\"", .via: "", .contentType: "ü"]] as [FieldLines] {
      var bytes = Array("before".utf8)
      fields.appendSection(to: &bytes)
      let section = Array(bytes.dropFirst(6))
      #expect(FieldLines(section: section.span) == fields)
      for count in section.indices { #expect(FieldLines(section: section.span.extracting(..<count)) == nil) }
      #expect(FieldLines(section: (section + [13, 10]).span) == nil)
    }
    for text in ["a: b\n\r\n", "a : b\r\n\r\n", "a: b\r\n c\r\n\r\n", "a: \u{1}\r\n\r\n", ": b\r\n\r\n"] {
      #expect(FieldLines(section: Array(text.utf8).span) == nil)
    }
    var limits = HTTP1Limits()
    limits.fieldLines = 1
    #expect(FieldLines(section: Array("a: b\r\na: b\r\n\r\n".utf8).span, limits: limits) == nil)
  }
}
