import Testing

@testable import Telemetry
@testable import Tracing

@Suite("An audit record")
struct AuditRecordTests {
  static let digest = String(repeating: "0123456789abcdef", count: 4)
  static let bytes = InlineArray<32, UInt8> { [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef][$0 % 8] }

  static func record(
    client: String = "web", _ outcome: AuditOutcome, reason: StaticString? = nil,
    token: AuditRecord.Token? = nil
  ) throws -> AuditRecord {
    AuditRecord(
      requestID: try #require(RequestID("R")), trace: .sample, client: client, address: "2001:db8::1",
      route: "/v1/catalog/{storefront}",
      outcome: outcome, reason: reason, token: token)
  }

  static func line(_ record: AuditRecord, _ format: LogFormat) -> String {
    var bytes: [UInt8] = []
    record.append(to: &bytes, format: format, time: LineTime(milliseconds: 0))
    return String(decoding: bytes, as: UTF8.self).replacing("1970-01-01T00:00:00.000Z", with: "T")
  }

  @Test(
    "of a grant names the client, the address and the route, and identifies the token",
    arguments: [
      (
        LogFormat.json,
        #"{"time":"T","level":"info","message":"audit","request.id":"R",\#(RequestTrace.json),"client.id":"web","#
          + #""client.address":"2001:db8::1","http.route":"/v1/catalog/{storefront}","audit.outcome":"granted","#
          + #""token.key_id":"ABC123DEFG","token.origins":["https://a.example","https://b.example"],"#
          + #""token.expiry":1795043200,"token.sha256":"\#(digest)"}"#
      ),
      (
        .text,
        "T info audit request.id=R \(RequestTrace.text) client.id=web client.address=2001:db8::1 http.route=/v1/catalog/{storefront} "
          + #"audit.outcome=granted token.key_id=ABC123DEFG token.origins=["https://a.example","https://b.example"] "#
          + "token.expiry=1795043200 token.sha256=\(digest)"
      ),
    ])
  func granted(_ format: LogFormat, _ expected: String) throws {
    let token = AuditRecord.Token(
      keyID: "ABC123DEFG", origins: ["https://a.example", "https://b.example"], expiry: 1_795_043_200,
      digest: TokenDigest(Self.bytes))
    #expect(Self.line(try Self.record(.granted, token: token), format) == expected + "\n")
  }

  @Test(
    "of a refusal gives the reason and no token field",
    arguments: [
      (AuditOutcome.refused, "origin_not_allowed" as StaticString, "refused"),
      (.limited, "rate_limited", "limited"),
    ])
  func refused(_ outcome: AuditOutcome, _ reason: StaticString, _ word: String) throws {
    let line = Self.line(try Self.record(client: "-", outcome, reason: reason), .json)
    #expect(line.hasSuffix(#""audit.outcome":"\#(word)","audit.reason":"\#(reason)"}"# + "\n"))
    #expect(line.contains(#""client.id":"-""#) && !line.contains("token."))
  }

  @Test("is one line, whatever the client's name contains")
  func injection() throws {
    let line = Self.line(try Self.record(client: "a\"\n{\"message\":\"audit\"}", .granted), .json)
    #expect(line.hasSuffix("}\n") && line.dropLast().allSatisfy { !$0.isNewline })
    #expect(line.contains(#""client.id":"a\"\n{\"message\":\"audit\"}","#))
  }

  @Test("has room for the longest values, each character escaped", arguments: LogFormat.allCases)
  func longestValues(_ format: LogFormat) throws {
    let text = String(repeating: "\u{1B}", count: 1000)
    let token = AuditRecord.Token(
      keyID: text, origins: [String](repeating: text, count: 32), expiry: .min, digest: TokenDigest(Self.bytes))
    let record = AuditRecord(
      requestID: try #require(RequestID(String(repeating: "R", count: 64))), trace: .sample, client: text,
      address: text, route: "/v1/catalog/{storefront}/{type}/{id}/{relationship}", outcome: .explained,
      reason: "provider_unavailable", origin: text, token: token)
    let line = Self.line(record, format)
    // Three texts of the request, and those of the token.
    #expect(line.utf8.count > 6000 * (3 + 33))
    #expect(line.hasSuffix(format == .json ? "\"}\n" : "\n"))
    let refusal = AuditRecord(
      requestID: record.requestID, trace: .sample, client: "-", address: "", route: record.route, outcome: .explained,
      reason: record.reason, origin: "")
    #expect(Self.line(refusal, format).utf8.count < LogFormat.roomForRecord / 2)
  }
}
