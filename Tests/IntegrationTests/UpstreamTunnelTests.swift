import Glibc
import TestSupport
import Testing

@Suite("A proxy between the server and Apple")
struct UpstreamTunnelTests {
  private static let song = "/v1/catalog/us/songs/1200868616"
  /// user:secret (RFC 7617 §2).
  private static let credentials = "Basic dXNlcjpzZWNyZXQ="

  private static func proxy(_ arguments: String...) throws -> RunningServer {
    try RunningServer(
      Repository.python, [Repository.script("connect_proxy.py")] + arguments, environment: [:], hasAdmin: false)
  }

  private static func settings(_ proxy: RunningServer) -> [String: String] {
    ["HTTPS_PROXY": "http://user:secret@127.0.0.1:\(proxy.port)", "LOG_LEVEL": "trace"]
  }

  @Test("from HTTPS_PROXY makes tunnels, and its credentials are in no log")
  func tunnel() throws {
    let ground = try UpstreamGround()
    let proxy = try Self.proxy()
    let sandbox = try ground.sandbox("--tls")
    let server = try ground.serve(sandbox, Self.settings(proxy))
    #expect(try server.request(Self.song).status == 200)
    #expect(try proxy.process.line() == "CONNECT 127.0.0.1:\(sandbox.port) \(Self.credentials)")
    server.stop()
    #expect(!server.log.contains("secret") && !server.log.contains("dXNlcjpzZWNyZXQ"))
  }

  @Test(
    "that refuses a tunnel causes an error and a log line",
    arguments: [("403", "refuses a tunnel"), ("407", "refuses the proxy credentials"), ("502", "refuses a tunnel")])
  func refusal(_ status: String, _ words: String) throws {
    let ground = try UpstreamGround()
    let proxy = try Self.proxy(status)
    let sandbox = try ground.sandbox("--tls")
    let server = try ground.serve(sandbox, Self.settings(proxy))
    let response = try server.request(Self.song)
    #expect(response.status == 502)
    #expect(response.errorCode == "upstream_error")
    #expect(response["Proxy-Status"]?.contains("error=destination_unavailable") == true)
    try server.process.waitForErrors(words)
    #expect(try sandbox.requestsSeen() == 0)
    server.stop()
    #expect(!server.log.contains("secret") && !server.log.contains("dXNlcjpzZWNyZXQ"))
  }

  @Test("is not used if NO_PROXY names the upstream, or if the upstream uses plain HTTP", arguments: [true, false])
  func exempt(_ isSecure: Bool) throws {
    let ground = try UpstreamGround()
    let proxy = try Self.proxy()
    let sandbox = isSecure ? try ground.sandbox("--tls") : try ground.sandbox()
    let exemption = isSecure ? ["NO_PROXY": "a.example, 127.0.0.1"] : [:]
    let server = try ground.serve(sandbox, Self.settings(proxy).merging(exemption) { $1 })
    #expect(try server.request(Self.song).status == 200)
    proxy.stop(SIGKILL)
    #expect(try proxy.process.line() == nil, "it was asked for a tunnel")
  }
}
