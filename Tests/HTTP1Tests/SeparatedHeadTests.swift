import HTTPTypes
import Testing

@testable import HTTP1

/// A request head whose parts HTTP/2 has separated gets the same judgement as its text in HTTP/1.1.
@Suite("A head of HTTP/2")
struct SeparatedHeadTests {
  struct Case: CustomTestStringConvertible {
    var method = "GET"
    var scheme = "https"
    var target = "/"
    var fields = [("host", "a")]

    var testDescription: String { "\(method) \(target.prefix(40)) \(fields.prefix(3).map { $0.1.prefix(40) })" }

    /// The head in HTTP/1.1.
    var text: [UInt8] {
      let lines = ["\(method) \(target) HTTP/1.1"] + fields.map { "\($0): \($1)" }
      return Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
    }
  }

  /// What a handler sees of a request, or the status of the refusal.
  enum Judgement: Equatable {
    case refused(Int)
    case accepted(RequestHead.Method, RequestHead.TargetForm, parts: [String], lines: [String], MessageFraming, Bool)

    init(_ parser: RequestHeadParser, _ bytes: [UInt8]) {
      func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }
      let head = parser.head
      let parts = [head.methodRange, head.target, head.path, head.query ?? 0..<0, head.authority]
      let facts = "\(head.forwarding) \(head.hasTraceParent) \(head.hasUserToken) \(head.keepAlive) \(head.version)"
      self = .accepted(
        head.method, head.targetForm, parts: parts.map(text) + [facts],
        lines: head.fields.map { text($0.name) + ": " + text($0.value) }, head.framing, head.expectsContinue)
    }
  }

  private static func parsed(_ example: Case) -> Judgement {
    let bytes = example.text
    var parser = RequestHeadParser()
    do {
      let length = try parser.parse(bytes.span)
      #expect(length == bytes.count)
      return Judgement(parser, bytes)
    } catch { return .refused(error.status.code) }
  }

  private static func taken(_ example: Case) -> Judgement {
    var bytes: [UInt8] = []
    func append(_ text: String) -> Range<Int> {
      let start = bytes.count
      bytes += Array(text.utf8)
      return start..<bytes.count
    }
    var control = RequestControlData()
    control.method = append(example.method)
    control.scheme = append(example.scheme)
    control.path = append(example.target)
    let lines = example.fields.map { (append($0.0), append($0.1)) }
    var parser = RequestHeadParser()
    do {
      try parser.take(control, in: bytes.span)
      for (name, value) in lines { try parser.take(name: name, value: value, in: bytes.span) }
      try parser.takeEnd()
      return Judgement(parser, bytes)
    } catch { return .refused(error.status.code) }
  }

  @Test("has the same judgement as its text in HTTP/1.1", arguments: cases)
  func same(_ example: Case) {
    #expect(Self.taken(example) == Self.parsed(example))
  }

  private static func host(and more: (String, String)...) -> [(String, String)] { [("host", "a")] + more }

  static let cases: [Case] =
    ["GET", "HEAD", "POST", "FOO", "get", "", "G T", "G(T", String(repeating: "M", count: 32), long(33)].map {
      Case(method: $0)
    }
    + [
      "/", "/a/b?c=d&e", "/%41%2f", "/%4", "/%00", "/a#b", "/a b", "/a?b?c", "a", "", "/\u{e4}", "/\"", "/[", "/\u{7f}",
      "/" + long(8192 - 14), "/" + long(8192 - 13), "*",
    ].map { Case(target: $0) }
    + ["*", "/x"].map { Case(method: "OPTIONS", target: $0) }
    + ["a:443", "a", "a:", "/x", "[::1]:443", "a:99999"].map { Case(method: "CONNECT", target: $0) }
    + ["a", "a:1", "[::1]", "[::1", "a:b", "u@a", "a b", "", "\u{e4}", "a,b", "a%", "a%41"].map {
      Case(fields: [("host", $0)])
    }
    + [[], [("host", "a"), ("host", "a")], [("accept", "b")]].map { Case(fields: $0) }
    + [
      ("content-length", "0"), ("content-length", "5"), ("content-length", "+5"), ("content-length", ""),
      ("content-length", "99999999999999999999"), ("expect", "100-continue"), ("expect", "x"), ("x", "a\u{1}b"),
      ("x", "a\tb"), ("x", "\u{fc}"), ("x", ""), ("x y", "a"), ("x(", "a"), ("", "a"), ("traceparent", "x"),
      ("forwarded", "x"), ("x-forwarded-for", "a"), ("x-request-id", "i"), ("x", long(32_768 - 9 - 5)),
      ("x", long(32_768 - 9 - 4)), ("connection", "close"), ("transfer-encoding", "chunked"),
    ].map { Case(fields: host(and: $0)) }
    + [
      Case(fields: host(and: ("content-length", "1"), ("content-length", "1"))),
      Case(fields: host(and: ("content-length", "1"), ("expect", "100-continue"))),
      Case(fields: [("host", "a")] + Array(repeating: ("x", "y"), count: 99)),
      Case(fields: [("host", "a")] + Array(repeating: ("x", "y"), count: 100)),
    ]

  private static func long(_ count: Int) -> String { String(repeating: "m", count: count) }

  @Test("has no absolute-form, and the scheme of HTTP only")
  func target() {
    #expect(Self.taken(Case(target: "https://a/")) == .refused(400))
    #expect(Self.taken(Case(scheme: "ftp")) == .refused(400))
    #expect(Self.taken(Case(scheme: "")) == .refused(400))
    #expect(Self.taken(Case(scheme: "HTTP")) == Self.parsed(Case()))
  }

  @Test("does not depend on the request before it")
  func reset() throws {
    let bytes = Array("GEThttps/host".utf8) + Array(repeating: UInt8(ascii: "a"), count: 30_000)
    var control = RequestControlData()
    (control.method, control.scheme, control.path) = (0..<3, 3..<8, 8..<9)
    var parser = RequestHeadParser()
    for _ in 0..<3 {
      try parser.take(control, in: bytes.span)
      try parser.take(name: 9..<13, value: 13..<14, in: bytes.span)
      try parser.take(name: 14..<15, value: 15..<bytes.count, in: bytes.span)
      try parser.takeEnd()
      #expect(parser.head.fields.count == 2)
      parser.reset()
    }
  }
}
