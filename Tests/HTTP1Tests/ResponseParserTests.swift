import HTTPTypes
import Testing

@testable import HTTP1

@Suite("The response parser")
struct ResponseParserTests {
  @Test("reads the parts of an acceptable response", arguments: SampleResponse.all)
  func accepts(_ expected: SampleResponse) throws {
    let outcome = ResponseOutcome(expected.input.bytes, answering: expected.method)
    let head = try #require(outcome.head)
    #expect(head.status == expected.status)
    #expect(head.fields == expected.fields)
    #expect(head.framing == expected.framing)
    #expect(head.contentLength == expected.contentLength)
    #expect(head.keepAlive == expected.keepAlive)
    #expect(outcome.content == Array(expected.content.utf8))
    #expect((outcome.verdict == .incomplete) == !expected.isWhole)
    #expect(outcome.endsWithConnection == (expected.framing == .untilClose))
  }

  @Test("refuses a response that is malformed or exceeds a limit", arguments: RefusedResponse.all)
  func refuses(_ response: RefusedResponse) {
    #expect(ResponseOutcome(response.input.bytes).verdict == .refused(response.error))
  }

  @Test("has the same outcome wherever the bytes are split", arguments: everyResponse)
  func splits(_ input: LabelledBytes, method: HTTPRequest.Method) {
    let bytes = input.bytes
    let whole = ResponseOutcome(bytes, answering: method)
    #expect(ResponseOutcome(bytes, arrivals: 0...bytes.count, answering: method) == whole, "byte by byte")
    for cut in input.cuts {
      #expect(ResponseOutcome(bytes, arrivals: [cut, bytes.count], answering: method) == whole, "split at \(cut)")
    }
  }

  @Test("needs more bytes after a prefix, or refuses the prefix like the whole response", arguments: everyResponse)
  func prefixes(_ input: LabelledBytes, method: HTTPRequest.Method) {
    let whole = ResponseOutcome(input.bytes, answering: method).verdict
    var isDecided = false
    for cut in input.cuts {
      let verdict = ResponseOutcome(Array(input.bytes.prefix(cut)), answering: method).verdict
      if isDecided || verdict != .incomplete {
        #expect(verdict == whole, "prefix of \(cut)")
        isDecided = true
      }
    }
  }

  @Test("scans each byte of a head at most twice when bytes arrive one at a time", arguments: everyResponse)
  func linearWork(_ input: LabelledBytes, method: HTTPRequest.Method) {
    var parser = ResponseHeadParser(answering: method)
    var looks = 0
    for count in 0...input.bytes.count {
      looks += count - parser.position
      do {
        if try parser.parse(input.bytes.span.extracting(first: count)) != nil { break }
      } catch { break }
    }
    #expect(looks <= 2 * input.bytes.count)
  }

  @Test("reports an error on every later call")
  func remembersRefusal() {
    var parser = ResponseHeadParser(answering: .get)
    for text in ["nonsense", "HTTP/1.1 204 No Content\r\n\r\n"] {
      let bytes = Array(text.utf8)
      #expect(throws: ResponseError.malformedStatusLine) { _ = try parser.parse(bytes.span) }
    }
  }

  static let everyResponse =
    SampleResponse.all.map { ($0.input, $0.method) } + RefusedResponse.all.map { ($0.input, .get) }
}
