import Dispatch
import TestSupport
import Testing

@testable import Commands
@testable import ServerSettings

@Suite("healthcheck")
struct HealthCheckCommandTests {
  /// A server that answers one request with these bytes.
  static func server(_ response: String) throws -> ScriptedPeer {
    let peer = try ScriptedPeer()
    DispatchQueue(label: "one response").async {
      do {
        let connection = try peer.accept()
        // A client ignores a response that arrives before its request.
        _ = try connection.request()
        connection.send(response)
        connection.end()
      } catch {
        Issue.record("\(error)")
      }
    }
    return peer
  }

  static func run(_ url: String?, _ environment: [String: String] = [:], timeout: Duration = .seconds(60))
    -> CommandResult
  {
    let input = SettingsInput(environment: environment, host: CheckConfigCommandTests.host)
    return HealthCheckCommand.result(url, input, timeout: timeout)
  }

  @Test(
    "succeeds only for status 200",
    arguments: [
      ("HTTP/1.1 200 OK\r\n\r\n", CommandResult.Status.good), ("HTTP/1.0 200\r\n\r\n", .good),
      ("HTTP/1.1 503 Service Unavailable\r\n\r\n", .failed), ("HTTP/1.1 2000 \r\n", .failed), ("SSH-2.0\r\n", .failed),
      ("HTTP/1.1 2", .failed), ("", .failed),
    ])
  func responses(_ response: String, _ status: CommandResult.Status) throws {
    let server = try Self.server(response)
    #expect(Self.run("http://127.0.0.1:\(server.port)/healthz").status == status)
    withExtendedLifetime(server) {}
  }

  @Test("requests the admin listener of the settings")
  func admin() throws {
    let server = try Self.server("HTTP/1.1 200 OK\r\n\r\n")
    #expect(Self.run(nil, ["ADMIN_PORT": "\(server.port)", "ADMIN_HOST": "*"]) == CommandResult(.good))
    withExtendedLifetime(server) {}
  }

  @Test("fails at its deadline")
  func deadline() throws {
    let server = try ScriptedPeer()
    let result = Self.run("http://127.0.0.1:\(server.port)/", timeout: .milliseconds(1))
    #expect(result.status == .failed)
    let sentence = "http://127.0.0.1:\(server.port)/ did not respond. "
    #expect(result.diagnostics.count == 1 && result.diagnostics[0].hasPrefix(sentence), "\(result.diagnostics)")
    withExtendedLifetime(server) {}
  }

  @Test(
    "explains why no request is possible",
    arguments: [
      ("https://127.0.0.1/", [:], CommandResult.Status.usage, "plain HTTP only"),
      ("ftp://x", [:], .usage, "not an http://"),
      ("http://", [:], .usage, "malformed"), ("http://a:b/", [:], .usage, "malformed"),
      ("http://u@a/", [:], .usage, "malformed"), ("http://a/\r\nX: y", [:], .usage, "not an http://"),
      (nil, ["ADMIN_ENABLED": "false"], .configuration, "admin.enabled"),
      (nil, ["ADMIN_PORT": "0"], .configuration, "admin.port is 0"),
      (nil, ["ADMIN_PORT": "x"], .configuration, "admin.port (ADMIN_PORT)"),
    ] as [(String?, [String: String], CommandResult.Status, String)])
  func refusals(_ url: String?, _ environment: [String: String], _ status: CommandResult.Status, _ words: String) {
    let result = Self.run(url, environment)
    #expect(result.status == status)
    #expect(result.diagnostics.count == 1 && result.diagnostics[0].contains(words), "\(result.diagnostics)")
  }

  @Test(
    "parses a URL into host, port and target",
    arguments: [
      ("http://localhost", "localhost", 80, "/"),
      ("http://127.0.0.1:81/healthz?x#y", "127.0.0.1", 81, "/healthz?x"),
      ("http://[::1]:81/", "::1", 81, "/"), ("http://[::1]?x", "::1", 80, "/?x"),
    ])
  func urls(_ text: String, _ host: String, _ port: UInt16, _ target: String) throws {
    let url = try HealthCheckURL(text)
    #expect(url.host == host && url.port == port && url.target == target)
  }
}
