import TestSupport
import Testing

@Suite("A failed TLS handshake")
struct FailedHandshakeTests {
  private let ground: Ground
  private let server: RunningServer

  init() throws {
    ground = try Ground()
    server = try ground.serve(try ground.tlsSettings().merging(["SERVER_LIMITS_TLS_HANDSHAKE": "1m"]) { $1 })
  }

  private func openssl(_ options: String...) throws {
    _ = try run("openssl", ["s_client", "-connect", "127.0.0.1:\(server.port)"] + options)
  }

  /// The log lines about failed sessions with this cause.
  private func lines(_ cause: String, of server: RunningServer) -> [String] {
    server.log.split(separator: "\n").filter { $0.contains("A TLS session failed: \(cause).") }.map(String.init)
  }

  @Test("is logged once per cause, with the client's address and the reason")
  func reasons() throws {
    for _ in 0..<3 { #expect(throws: TestFailure.self) { try server.request("/token") } }
    try openssl("-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
    try openssl("-alpn", "spdy/3")
    try openssl("-tls1_2", "-sigalgs", "ECDSA+SHA224")
    let plain = try server.connect()
    plain.send("GET / HTTP/1.1\r\n\r\n")
    #expect(try plain.response().status == 400)
    let half = try server.connect()
    half.send("\u{16}\u{3}\u{1}")
    half.finishSending()
    #expect(try half.receiveAll().isEmpty)
    // A load balancer that only checks whether the port is open causes no failure.
    let probe = try server.connect()
    probe.finishSending()
    #expect(try probe.receiveAll().isEmpty)
    let page = try MetricsPage(of: server)
    #expect(server.stop() == 0)
    for (cause, label, level, count) in [
      ("the client does not trust the certificate", "untrusted_certificate", "warning", 3),
      ("the client does not speak TLS 1.2 or 1.3", "unsupported_version", "info", 1),
      (
        "the client offers by ALPN only protocols that the server does not support", "no_application_protocol", "info",
        1
      ),
      (
        "the client and the server share no cipher suite, curve or signature algorithm", "nothing_shared", "info", 1
      ),
      ("the client does not speak TLS", "not_tls", "info", 1),
      ("the client closed the connection during the handshake", "closed", "info", 1),
    ] {
      let lines = lines(cause, of: server)
      #expect(lines.count == 1, "\(cause): \(server.log)")
      #expect(lines.first?.contains(#""level":"\#(level)""#) == true)
      #expect(lines.first?.contains(#""client.address":"127.0.0.1:"#) == true)
      #expect(page["musickit_tls_failures_total", ["cause": label]] == Double(count), "\(label)")
    }
  }

  @Test("after the time limit ends with an alert and is logged")
  func timeout() throws {
    let server = try ground.serve(try ground.tlsSettings().merging(["SERVER_LIMITS_TLS_HANDSHAKE": "1s"]) { $1 })
    let client = try RawClient(port: server.port)
    // A fatal user_canceled (RFC 8446 §6.1).
    #expect(try client.rest() == [21, 3, 3, 0, 2, 2, 90])
    #expect(server.stop() == 0)
    #expect(lines("the client did not finish the handshake within server.limits.tlsHandshake", of: server).count == 1)
  }
}
