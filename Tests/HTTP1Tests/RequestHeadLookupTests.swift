import HTTP1
import Testing

@Suite("Fields of a request head")
struct RequestHeadLookupTests {
  private let bytes = Array("GET / HTTP/1.1\r\nHost: a\r\nORIGIN: b \r\nX-Y:\r\norigin: c\r\nX_Y: d\r\n\r\n".utf8)

  private func head() throws -> RequestHead {
    var parser = RequestHeadParser()
    #expect(try parser.parse(array: bytes) == bytes.count)
    return parser.head
  }

  @Test("are found in any letter case, and show whether they are repeated")
  func find() throws {
    let head = try head()
    #expect(head.occurrence("host", bytes) == .single(22..<23))
    #expect(head.occurrence("x-y", bytes) == .single(41..<41))
    #expect(head.occurrence("origin", bytes) == .repeated)
    #expect(head.occurrence("origi", bytes) == .absent)
    #expect(head.occurrence("accept", bytes) == .absent)
  }

  @Test("keep their order and lose the white space around their values")
  func order() throws {
    let lines = try head().fields.map {
      bytes.text($0.name) + "=" + bytes.text($0.value)
    }
    #expect(lines == ["Host=a", "ORIGIN=b", "X-Y=", "origin=c", "X_Y=d"])
  }
}
