import HTTP1
import HTTPTypes
import Testing

@Suite("Fields of a request head")
struct RequestHeadLookupTests {
  private let bytes = Array("GET / HTTP/1.1\r\nHost: a\r\nORIGIN: b \r\nX-Y:\r\norigin: c\r\nX_Y: d\r\n\r\n".utf8)

  private func head() throws -> RequestHead {
    var parser = RequestHeadParser()
    #expect(try parser.parse(array: bytes) == bytes.count)
    return parser.head
  }

  @Test("are found in any letter case, the first field of a name")
  func first() throws {
    let head = try head()
    let literal = try #require(head.value("origin", bytes))
    #expect(bytes.text(literal) == "b")
    let byName = head.firstField(named: HTTPField.Name.origin, in: bytes.span)
    #expect(byName == literal)
    #expect(head.value("x-y", bytes)?.isEmpty == true)
    #expect(head.value("origi", bytes) == nil)
    let absent = head.firstField(named: HTTPField.Name.accept, in: bytes.span)
    #expect(absent == nil)
  }

  @Test("are counted by name")
  func count() throws {
    let head = try head()
    #expect(head.count("origin", bytes) == 2)
    #expect(head.count("x-y", bytes) == 1)
    #expect(head.count("accept", bytes) == 0)
  }

  @Test("keep their order and lose the white space around their values")
  func order() throws {
    let lines = try head().fields.map {
      bytes.text($0.name) + "=" + bytes.text($0.value)
    }
    #expect(lines == ["Host=a", "ORIGIN=b", "X-Y=", "origin=c", "X_Y=d"])
  }
}
