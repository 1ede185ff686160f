import JSON
import TestSupport
import Testing

@Suite("The server behind a proxy of deploy/")
struct DeployedProxyTests {
  private static let settings = ["SERVER_TRUSTED_PROXIES": "['127.0.0.1']"]

  /// Fields that name another client, or no fields.
  private static let forgeries: [[String]] = [
    [], ["X-Forwarded-For: 192.0.2.1"], ["Forwarded: for=192.0.2.1"],
    ["X-Forwarded-For: 192.0.2.1", "Forwarded: for=192.0.2.2"],
    ["X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 127.0.0.1"],
  ]

  @Test("logs the client's real address, never a forged address", arguments: DeployedProxy.Kind.allCases)
  func address(_ kind: DeployedProxy.Kind) throws {
    let server = try Ground().serve(Self.settings)
    let proxy = try DeployedProxy(kind, server)
    let clients = Self.forgeries.indices.map { "127.0.0.\(7 + $0)" }
    for (client, fields) in zip(clients, Self.forgeries) {
      #expect(try proxy.request("/token", from: client, fields: fields).status == 200)
    }
    #expect(try MetricsPage(of: server)["musickit_forwarded_ignored_total"] == 0)
    server.stop()
    let lines = server.accessLines.filter { $0["http.route"]?.string == "/token" }
    #expect(lines.map { $0["client.address"]?.string } == clients)
  }

  @Test("uses the proxy's request ID in the log and in the response", arguments: DeployedProxy.Kind.allCases)
  func requestID(_ kind: DeployedProxy.Kind) throws {
    let server = try Ground().serve(Self.settings)
    let proxy = try DeployedProxy(kind, server)
    let identifiers = try (0..<2).map { _ in
      try proxy.request("/token", from: "127.0.0.7", fields: ["X-Request-ID: forged"])["X-Request-ID"]
    }
    #expect(Set(identifiers).count == 2)
    #expect(!identifiers.contains("forged"))
    server.stop()
    let lines = server.accessLines.filter { $0["http.route"]?.string == "/token" }
    #expect(lines.map { $0["request.id"]?.string } == identifiers)
  }

  @Test("gets several requests of the proxy on each connection", arguments: DeployedProxy.Kind.allCases)
  func connections(_ kind: DeployedProxy.Kind) throws {
    let server = try Ground().serve(Self.settings)
    let proxy = try DeployedProxy(kind, server)
    for _ in 0..<10 { #expect(try proxy.request("/token", from: "127.0.0.7").status == 200) }
    // One connection or a few more: the next client can come before a connection counts as idle.
    let accepted = try #require(try MetricsPage(of: server)["musickit_connections_accepted_total"])
    #expect(accepted <= 5)
  }
}
