import Testing

@testable import HTTP1

@Suite("The request head parser")
struct RequestHeadParserTests {
  private static let knownMethods = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"]

  @Test("reads the parts of an acceptable head", arguments: AcceptedHead.all)
  func accepts(_ expected: AcceptedHead) throws {
    let bytes = expected.input.bytes
    var parser = RequestHeadParser()
    #expect(try parser.parse(array: bytes) != nil)
    let head = parser.head
    #expect(bytes.text(head.methodRange) == expected.method)
    #expect("\(head.method)".uppercased() == (Self.knownMethods.contains(expected.method) ? expected.method : "OTHER"))
    #expect(head.targetForm == expected.form)
    #expect(bytes.text(head.path) == expected.path)
    #expect(head.query.map { bytes.text($0) } == expected.query)
    #expect(bytes.text(head.authority) == expected.authority)
    #expect(head.version == expected.version)
    #expect(head.framing == expected.framing)
    #expect(head.keepAlive == expected.keepAlive)
    #expect(head.expectsContinue == expected.expectsContinue)
  }

  @Test("refuses a head that is malformed or a known attack", arguments: RefusedHead.all)
  func refuses(_ head: RefusedHead) {
    #expect(HeadOutcome(head.input.bytes) == .refused(head.error))
  }

  @Test("accepts a head at the limits", arguments: RefusedHead.largestAccepted)
  func limits(_ head: LabelledBytes) {
    guard case .complete(head.bytes.count, _) = HeadOutcome(head.bytes) else {
      Issue.record("\(HeadOutcome(head.bytes))")
      return
    }
  }

  @Test("has the same outcome wherever the bytes are split", arguments: everyHead)
  func splits(_ input: LabelledBytes) {
    let bytes = input.bytes
    let whole = HeadOutcome(bytes)
    #expect(HeadOutcome(bytes, arrivals: 0...bytes.count) == whole, "byte by byte")
    for cut in input.cuts {
      #expect(HeadOutcome(bytes, arrivals: [cut, bytes.count]) == whole, "split at \(cut)")
    }
  }

  @Test("needs more bytes after a prefix, or refuses the prefix like the whole head", arguments: everyHead)
  func prefixes(_ input: LabelledBytes) {
    let whole = HeadOutcome(input.bytes)
    var isDecided = false
    for cut in input.cuts {
      let outcome = HeadOutcome(Array(input.bytes.prefix(cut)))
      if case .complete(let length, _) = whole {
        #expect(outcome == (cut < length ? .incomplete : whole), "prefix of \(cut)")
      } else if isDecided || outcome != .incomplete {
        #expect(outcome == whole, "prefix of \(cut)")
        isDecided = true
      }
    }
  }

  @Test("scans each byte at most twice when bytes arrive one at a time", arguments: everyHead)
  func linearWork(_ input: LabelledBytes) {
    var parser = RequestHeadParser()
    var looks = 0
    for count in 0...input.bytes.count {
      looks += count - parser.position
      guard case .incomplete = HeadOutcome(input.bytes, arrivals: CollectionOfOne(count), parser: &parser) else {
        break
      }
      // Only a CR waits, for the next byte.
      #expect(parser.position >= count - 1)
    }
    #expect(looks <= 2 * input.bytes.count)
  }

  @Test(
    "refuses an endless method, request line or header section as soon as the limit is exceeded",
    arguments: [
      ("A", 33), ("GET /a", 8193), ("GET / HTTP/1.1\r\nHost: a\r\nB: c", 16 + 32768 - 1),
    ])
  func early(start: String, refusedAt: Int) {
    let bytes = Array(start.utf8) + Array(repeating: UInt8(ascii: "a"), count: 40000)
    var parser = RequestHeadParser()
    let count = (1...bytes.count).first {
      HeadOutcome(bytes, arrivals: CollectionOfOne($0), parser: &parser) != .incomplete
    }
    #expect(count == refusedAt)
  }

  @Test("reports an error again until the parser is reset")
  func remembersRefusal() {
    var parser = RequestHeadParser()
    let bad = Array("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n".utf8)
    let good = Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
    #expect(throws: RequestError.repeatedHost) { try parser.parse(array: bad) }
    #expect(throws: RequestError.repeatedHost) { try parser.parse(array: good) }
    parser.reset()
    #expect(throws: Never.self) { try parser.parse(array: good) }
    #expect(parser.head.fields.count == 1)
  }

  @Test("reads a hundred pipelined requests in order")
  func pipelining() throws {
    var rest = (0..<100).flatMap { Array("GET /\($0)?q=\($0) HTTP/1.1\r\nHost: h\($0)\r\nX-N: \($0)\r\n\r\n".utf8) }
    var parser = RequestHeadParser()
    for number in 0..<100 {
      let length = try #require(try parser.parse(array: rest))
      #expect(rest.text(parser.head.path) == "/\(number)")
      #expect(rest.text(parser.head.authority) == "h\(number)")
      let value = try #require(parser.head.value("x-n", rest))
      #expect(rest.text(value) == "\(number)")
      parser.reset()
      rest.removeFirst(length)
    }
    #expect(rest.isEmpty)
  }

  static let everyHead =
    AcceptedHead.all.map(\.input) + RefusedHead.all.map(\.input) + RefusedHead.largestAccepted
}
