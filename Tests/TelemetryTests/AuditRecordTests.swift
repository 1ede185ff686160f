import Testing

@testable import Telemetry
@testable import Tracing

@Suite("An audit record")
struct AuditRecordTests {
  static let digest = String(repeating: "0123456789abcdef", count: 4)

  static func record(
    client: String = "web", _ outcome: AuditRecord.Outcome, reason: StaticString? = nil,
    token: AuditRecord.Token? = nil
  ) throws -> AuditRecord {
    AuditRecord(
      requestID: try #require(RequestID("R")), trace: .sample, client: client, address: "2001:db8::1",
      route: "/v1/catalog/{storefront}",
      outcome: outcome, reason: reason, token: token)
  }

  static func line(_ record: AuditRecord, _ format: LogFormat) -> String {
    var bytes: [UInt8] = []
    record.append(to: &bytes, format: format, time: WallTime(milliseconds: 0))
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
      digest: try #require(TokenDigest(hexadecimal: Self.digest)))
    #expect(Self.line(try Self.record(.granted, token: token), format) == expected + "\n")
  }

  @Test(
    "of a refusal gives the reason and no token field",
    arguments: [
      (AuditRecord.Outcome.refused, "origin_not_allowed" as StaticString, "refused"),
      (.limited, "rate_limited", "limited"),
    ])
  func refused(_ outcome: AuditRecord.Outcome, _ reason: StaticString, _ word: String) throws {
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

  @Test(
    "rejects a malformed token digest",
    arguments: [
      "", "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJBQkMifQ.c2lnbmF0dXJl", String(digest.dropLast()), digest + "0",
      digest.uppercased(), String(digest.dropLast()) + "g", String(digest.dropLast(2)) + "é",
    ])
  func digests(_ text: String) {
    #expect(TokenDigest(hexadecimal: text) == nil)
  }
}
