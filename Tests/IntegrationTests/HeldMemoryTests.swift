import TestSupport
import Testing

/// What the libraries' sessions hold is chosen by peers, and charged as it is.
@Suite("The memory of sessions")
struct HeldMemoryTests {
  @Test(
    "is charged to the budget as the process holds it",
    arguments: [
      ("handshake", 500, "/token"), ("hello", 500, "/token"), ("tls", 300, "/token"), ("h2-rest", 250, "/token"),
      ("h2-tables", 250, "/token"),
    ])
  func charged(_ kind: String, _ count: Int, _ path: String) throws {
    let ground = try Ground()
    let settings = ["LOG_LEVEL": "error", "SERVER_LIMITS_MEMORY": "1GB"]
    let server = try ground.serve(settings.merging(try ground.tlsSettings()) { $1 })
    for _ in 0..<5 { #expect(try server.request("/token", "-k").status == 200) }
    let (heldBefore, chargedBefore) = (try server.anonymousBytes, try Self.charged(on: server))
    let peers = try HostilePeers(kind, count, at: server, path: path, addresses: 6)
    #expect(peers.open == count, "\(peers.refusal)")
    let held = Double(try server.anonymousBytes - heldBefore)
    let charged = try Self.charged(on: server) - chargedBefore
    #expect(held <= 1.05 * charged, "\(held) held, \(charged) charged")
    // The kernel has its part of what is charged.
    #expect(charged <= 1.5 * held + Double(count * 8192), "\(held) held, \(charged) charged")
    peers.leave()
    #expect(server.stop() == 0)
  }

  private static func charged(on server: RunningServer) throws -> Double {
    try #require(MetricsPage(of: server)["musickit_memory_budget_used_bytes"])
  }
}
