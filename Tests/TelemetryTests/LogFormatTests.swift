import Logging
import Testing

@testable import Telemetry
@testable import Tracing

@Suite("A log line")
struct LogFormatTests {
  static let time = LineTime(milliseconds: 1_790_000_000_123)

  static func line(_ format: LogFormat, message: String = "m", _ value: String, named name: String = "k") -> String {
    written {
      format.begin(&$0, time: time, level: "info", message: message)
      format.field(&$0, name, value)
      format.end(&$0)
    }
  }

  static func written(_ write: (inout OutputSpan<UInt8>) -> Void) -> String {
    String(decoding: [UInt8](capacity: 1000) { (output: inout OutputSpan<UInt8>) in write(&output) }, as: UTF8.self)
  }

  @Test(
    "escapes in JSON the characters that are unsafe for RFC 8259 or a terminal",
    arguments: [
      ("plain", "plain"), ("", ""), ("a\"b\\c", #"a\"b\\c"#), ("a\nb\rc\td", #"a\nb\rc\td"#),
      ("\u{0}\u{1B}[31m\u{7F}", #"\u0000\u001b[31m\u007f"#), ("\u{85}\u{9B}", #"\u0085\u009b"#),
      ("\u{2028}\u{202E}\u{2066}\u{FEFF}", #"\u2028\u202e\u2066\ufeff"#), ("é🎵", "é🎵"),
    ])
  func json(_ value: String, _ escaped: String) {
    let line = Self.line(.json, message: value, value, named: value)
    let time = "2026-09-21T14:13:20.123Z"
    #expect(
      line == "{\"time\":\"\(time)\",\"level\":\"info\",\"message\":\"\(escaped)\",\"\(escaped)\":\"\(escaped)\"}\n")
  }

  @Test(
    "quotes text values that contain separators",
    arguments: [
      ("plain", "k=plain"), ("", #"k="""#), ("a b", #"k="a b""#), ("a=b", #"k="a=b""#), ("a\"b", #"k="a\"b""#),
      ("x\n2026 info forged", #"k="x\n2026 info forged""#), ("\u{1B}[2J", #"k="\u001b[2J""#), ("é", "k=\"é\""),
    ])
  func text(_ value: String, _ field: String) {
    #expect(Self.line(.text, value) == "2026-09-21T14:13:20.123Z info m \(field)\n")
  }

  @Test("is one line, whatever its message contains")
  func injection() {
    let line = Self.line(.text, message: "a \"quoted\" \\ thing\n2026 error forged\u{1B}", "v")
    #expect(line.dropLast().allSatisfy { !$0.isNewline })
    #expect(line.contains(#"a "quoted" \\ thing\n2026 error forged\u001b k=v"#))
  }

  @Test(
    "has an RFC 3339 timestamp",
    arguments: [
      (0, "1970-01-01T00:00:00.000Z"), (951_782_399_999, "2000-02-28T23:59:59.999Z"),
      (951_782_400_000, "2000-02-29T00:00:00.000Z"), (951_868_800_000, "2000-03-01T00:00:00.000Z"),
      (4_107_542_399_000, "2100-02-28T23:59:59.000Z"), (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
      (1_798_761_599_001, "2026-12-31T23:59:59.001Z"), (-1, "1969-12-31T23:59:59.999Z"),
    ])
  func time(_ milliseconds: Int, _ text: String) {
    #expect(Self.text(of: LineTime(milliseconds: milliseconds)) == text)
    for before in [-1, 1, 1000, -1000, 86_400_000].map({ milliseconds + $0 }) {
      var time = LineTime(milliseconds: before)
      time.set(milliseconds: milliseconds)
      #expect(Self.text(of: time) == text, "after \(before)")
    }
  }

  private static func text(of time: LineTime) -> String {
    written { line in time.text.indices.forEach { line.append(time.text[$0]) } }
  }

  @Test("escapes a character wherever it is in a value", arguments: 0..<20)
  func anyPlace(_ place: Int) {
    let plain = Array(repeating: "a", count: 20)
    for (character, escaped) in [
      ("\"", #"\""#), ("\\", #"\\"#), ("\u{1F}", #"\u001f"#), ("\u{7F}", #"\u007f"#), ("\u{80}", #"\u0080"#),
      (" ", " "), ("~", "~"), ("!", "!"), ("#", "#"), ("[", "["), ("]", "]"), ("é", "é"),
    ] {
      var (value, expected) = (plain, plain)
      (value[place], expected[place]) = (character, escaped)
      let line = Self.line(.json, value.joined())
      #expect(line.hasSuffix(#","k":"\#(expected.joined())"}"# + "\n"))
    }
  }

  @Test(
    "gives durations in milliseconds with three decimals",
    arguments: [
      (Duration.zero, "0.000"), (.microseconds(1), "0.001"), (.nanoseconds(999), "0.000"),
      (.microseconds(12_345), "12.345"),
      (.seconds(75), "75000.000"), (.seconds(-1), "0.000"), (.nanoseconds(-1), "0.000"),
    ])
  func durations(_ duration: Duration, _ text: String) {
    #expect(Self.written { $0.appendMilliseconds(duration) } == text)
  }

  @Test("of a request has room for the longest values, each character escaped", arguments: LogFormat.allCases)
  func longestValues(_ format: LogFormat) throws {
    let text = String(repeating: "\u{1B}", count: 1000)
    let record = AccessRecord(
      requestID: try #require(RequestID(String(repeating: "R", count: 64))), trace: .sample, client: text, method: text,
      route: "/v1/catalog/{storefront}/{type}/{id}/{relationship}", status: .min, bytes: .min,
      duration: .seconds(Int64.max))
    var bytes: [UInt8] = []
    record.append(to: &bytes, format: format, time: Self.time)
    #expect(bytes.count > 6000 * 2)
    bytes = []
    record.appendForPerson(to: &bytes, time: Self.time)
    #expect(!bytes.isEmpty)
  }

  @Test(
    "of a request contains the access fields, without a query or a credential",
    arguments: [
      (
        LogFormat.json,
        #"{"time":"T","level":"info","message":"access","request.id":"R",\#(RequestTrace.json),"client.address":"192.0.2.1","#
          + #""http.method":"GET","http.route":"/token","http.status":200,"response.bytes":270,"duration.ms":1.234}"#
      ),
      (
        .text,
        "T info access request.id=R \(RequestTrace.text) client.address=192.0.2.1 http.method=GET http.route=/token http.status=200 "
          + "response.bytes=270 duration.ms=1.234"
      ),
    ])
  func access(_ format: LogFormat, _ expected: String) throws {
    let record = AccessRecord(
      requestID: try #require(RequestID("R")), trace: .sample, client: "192.0.2.1", method: "GET", route: "/token",
      status: 200,
      bytes: 270, duration: .microseconds(1234))
    var bytes: [UInt8] = []
    record.append(to: &bytes, format: format, time: Self.time)
    #expect(
      String(decoding: bytes, as: UTF8.self).replacing("2026-09-21T14:13:20.123Z", with: "T") == expected + "\n")
  }
  @Test(
    "of a request is short and coloured in the format for people",
    arguments: [(200, 32), (304, 36), (404, 33), (499, 33), (502, 31)])
  func person(_ status: Int, _ colour: Int) throws {
    #expect(
      try Self.personLine(route: "/token", status: status)
        == "14:13:20Z  \u{1B}[\(colour)m\(status)\u{1B}[0m  GET /token  1.234 ms\n")
  }

  @Test("of a request has its path instead of the route's template in the format for people")
  func path() throws {
    let line = try Self.personLine(route: "/v1/catalog/{storefront}/{type}/{id}", path: "/v1/catalog/us/songs/1")
    #expect(line == "14:13:20Z  \u{1B}[32m200\u{1B}[0m  GET /v1/catalog/us/songs/1  1.234 ms\n")
  }

  @Test("of a request has at most 120 printable ASCII columns in the format for people")
  func columns() throws {
    let path = "/\u{1B}[31m" + String(repeating: "é", count: 200)
    let line = try Self.personLine(method: "PROPPATCH", route: "-", path: path, duration: .seconds(99 * 86_400))
    let visible = line.replacing("\u{1B}[32m", with: "").replacing("\u{1B}[0m", with: "").dropLast()
    #expect(visible.utf8.count <= 120)
    #expect(visible.utf8.allSatisfy { (0x20..<0x7F).contains($0) })
  }

  @Test("of a refusal is short and coloured in the format for people, and a grant has no line")
  func refusal() throws {
    let id = try #require(RequestID("R"))
    let refused = AuditRecord(
      requestID: id, trace: .sample, client: "-", address: "192.0.2.1", route: "/token", outcome: .refused,
      reason: "origin_not_allowed",
      origin: "https://evil.example")
    var line: [UInt8] = []
    refused.appendForPerson(to: &line, time: Self.time)
    #expect(
      String(decoding: line, as: UTF8.self)
        == "14:13:20Z  \u{1B}[33mrefused\u{1B}[0m  origin_not_allowed  -  https://evil.example  /token\n")
    var longest: [UInt8] = []
    AuditRecord(
      requestID: id, trace: .sample, client: String(repeating: "c", count: 64), address: "192.0.2.1",
      route: "/v1/catalog/{storefront}/{type}/{id}", outcome: .refused, reason: "a_reason_of_more_than_26_bytes",
      origin: "https://\(String(repeating: "o", count: 200)).example"
    ).appendForPerson(to: &longest, time: Self.time)
    let escapes = "\u{1B}[33m".utf8.count + "\u{1B}[0m".utf8.count
    #expect(longest.count - escapes - 1 == 120)
  }

  private static func personLine(
    method: String = "GET", route: StaticString, path: String = "", status: Int = 200,
    duration: Duration = .microseconds(1234)
  ) throws -> String {
    let record = AccessRecord(
      requestID: try #require(RequestID("R")), trace: .sample, client: "192.0.2.1", method: method, route: route,
      path: Array(path.utf8),
      status: status, bytes: 270, duration: duration)
    var bytes: [UInt8] = []
    record.appendForPerson(to: &bytes, time: time)
    return String(decoding: bytes, as: UTF8.self)
  }
}
