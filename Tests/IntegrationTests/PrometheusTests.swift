import TestSupport
import Testing

@Suite("Prometheus")
struct PrometheusTests {
  private static let album = "/v1/catalog/us/albums/1200868601"
  private static let settings = ["ACCESS_ANONYMOUS": "{ token: true, catalog: true }"]

  @Test("reads the metrics, and evaluates every alert without an error; no alert is active for a healthy server")
  func healthy() throws {
    let ground = try Ground()
    let emulator = try Emulator(ground)
    let server = try ground.serve(emulator.settings.merging(Self.settings) { $1 })
    #expect(try server.request(Self.album).status == 200)
    let prometheus = try PrometheusServer(server)
    for _ in 0..<3 { #expect(try server.request("/token").status == 200) }
    try eventually("Prometheus has read the metrics") {
      try prometheus.value(of: "up{job=\"musickit-token-server\"}") == 1
    }
    try eventually("Prometheus has read the count of tokens") {
      try prometheus.value(of: "musickit_http_requests_total{route=\"/token\", code=\"200\"}") == 3
    }
    #expect(try prometheus.value(of: "musickit_upstream_attempts_total") == 1)
    try eventually("Prometheus has evaluated every rule") {
      try prometheus.rules().allSatisfy { $0.health != "unknown" }
    }
    let rules = try prometheus.rules()
    let alerts = try TextFile.read("\(Repository.path)/deploy/prometheus/alerts.yaml").split(separator: "- alert: ")
    #expect(!rules.isEmpty && rules.count == alerts.count - 1)
    #expect(rules.filter { $0.health != "ok" || $0.error != nil }.isEmpty)
    #expect(rules.filter { $0.state != "inactive" }.isEmpty)
    withExtendedLifetime(emulator) {}
  }

  @Test("sees that Apple refuses the developer tokens")
  func refused() throws {
    // The emulator knows another key.
    let emulator = try Emulator(try Ground())
    let server = try Ground().serve(emulator.settings.merging(Self.settings) { $1 })
    let prometheus = try PrometheusServer(server)
    #expect(try server.request(Self.album).errorCode == "developer_token_rejected")
    let name = "MusicKitDeveloperTokenRefused"
    try eventually("the alert is active") {
      try prometheus.rules().contains { $0.name == name && $0.state != "inactive" }
    }
    let rule = try #require(try prometheus.rules().first { $0.name == name })
    #expect(rule.summaries.count == 1)
    #expect(rule.summaries.allSatisfy { $0.hasPrefix("Apple refuses the developer tokens of 127.0.0.1:") })
    withExtendedLifetime(emulator) {}
  }

  @Test("promtool finds no fault in the metrics")
  func page() throws {
    let ground = try Ground()
    let server = try ground.serve(try ground.tlsSettings())
    let page = try server.admin("/metrics")
    #expect(page.status == 200)
    let result = try run("promtool", ["check", "metrics"], input: page.body)
    #expect(result.status == 0, "\(result.stdout)\(result.stderr)")
  }
}
