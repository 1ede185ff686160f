import ArgumentParser
import Dispatch
import TestSupport
import Testing

@testable import Commands

@Suite("doctor --url")
struct ServerDoctorCommandTests {
  /// A server that answers one request on each connection with these contents, and with status 200 unless the content
  /// has another one in front: `404 {}`.
  private static func server(_ contents: [String]) throws -> ScriptedPeer {
    let peer = try ScriptedPeer()
    DispatchQueue(label: "responses").async {
      for content in contents {
        do {
          let connection = try peer.accept()
          _ = try connection.request()
          let status = content.prefix(while: \.isNumber)
          let body = content.dropFirst(status.count)
          connection.send(
            "HTTP/1.1 \(status.isEmpty ? "200" : status) X\r\nContent-Length: \(body.utf8.count)\r\n"
              + "Connection: close\r\n\r\n\(body)")
          connection.end()
        } catch {
          Issue.record("\(error)")
        }
      }
    }
    return peer
  }

  private static let ready = #"{"status":"ready","checks":{"token":{"status":"ok","detail":""}}}"#

  private static func run(_ contents: [String]) throws -> CommandResult {
    let server = try server(contents)
    let command = try DoctorCommand.parse([
      "--url", "http://127.0.0.1:\(server.port)", "--origin", "https://a.example",
    ])
    return withExtendedLifetime(server) { command.result(input: -1) }
  }

  @Test(
    "blames the address for a response that is not one of an admin listener",
    arguments: [
      "", "{}", "x", "[]", #"{"status":"ok"}"#, #"{"checks":{}}"#, #"{"status":1,"checks":{}}"#,
      #"{"status":"ready","checks":[]}"#, #"204 {"status":"ready","checks":{}}"#, #"404 {"errors":[{"detail":"no"}]}"#,
      #"{"status":"ready","checks":{"a":"\#(String(repeating: "x", count: 65_536))"}}"#,
      #"{"status":"ready","checks":{"a":[\#(String(repeating: "1,", count: 600))1]}}"#,
    ])
  func otherServer(_ content: String) throws {
    let result = try Self.run([content])
    #expect(result.status == .failed && result.diagnostics.isEmpty)
    #expect(result.output.first?.hasPrefix("✗ server") == true, "\(result.output)")
    #expect(result.output.joined().contains("admin.port"))
  }

  @Test(
    "blames the version for a response that is no explanation",
    arguments: [
      ("404 {}", "older"), ("405 {}", "older"), ("{}", "not one of this version"), ("x", "not one of this version"),
      (#"{"allowed":true}"#, "not one of this version"), (#"{"allowed":1,"evidence":[]}"#, "not one of this version"),
      (#"{"allowed":false,"evidence":[]}"#, "not one of this version"),
      (#"{"allowed":true,"evidence":[],"cors":{}}"#, "not one of this version"),
    ])
  func otherVersion(_ content: String, _ words: String) throws {
    let result = try Self.run([Self.ready, content])
    #expect(result.status == .failed)
    #expect(result.output[0].hasPrefix("✗ server") && result.output[0].contains(words), "\(result.output)")
    #expect(result.output.contains { $0.hasPrefix("– access      It depends on server.") })
  }

  @Test("reports why the server refuses to explain")
  func refusal() throws {
    let result = try Self.run([Self.ready, #"429 {"errors":[{"detail":"Too many."}]}"#])
    #expect(result.status == .failed)
    #expect(result.output.contains("✗ access      The server refuses to explain (429): Too many."), "\(result.output)")
  }

  @Test("shows no control character of a response, and little of a long one")
  func hostileText() throws {
    let evil = #"\u001b[31m\u0007\u009b2J\r\n✓ all\u202e\u2028\u0000"#
    let readiness = #"{"status":"degraded","checks":{"\#(evil)":{"status":"no","detail":"\#(evil)"}}}"#
    let long = String(repeating: "y", count: 20_000)
    let explanation = """
      {"allowed":false,"client":"\(evil)","status":4,"code":"\(evil)","detail":"\(long)","evidence":["\(evil)"],\
      "fix":"\(evil)","cors":{"allowed":false,"detail":"\(evil)","preflight":{"\(evil)":"\(evil)"}}}
      """
    let result = try Self.run([readiness, explanation])
    #expect(result.status == .failed)
    let text = result.output.joined(separator: "\n")
    #expect(text.contains("\u{FFFD}[31m\u{FFFD}\u{FFFD}2J\u{FFFD}\u{FFFD}✓ all\u{FFFD}\u{FFFD}\u{FFFD}"), "\(text)")
    for line in result.output {
      #expect(line.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7F..<0xA0).contains($0.value) })
      #expect(!line.contains("\u{202E}") && !line.contains("\u{2028}") && line.count < 3000)
      #expect(!line.hasPrefix("✓ all"))
    }
  }
}
