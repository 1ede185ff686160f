import Glibc
import TestSupport
import Testing

@Suite("Thousands of open TLS 1.3 connections")
struct ManyTLSConnectionsTests {
  /// More than fit into a heap of 64 KiB, at 32 bytes each.
  private static let count = 2200

  @Test(
    "leave room for further connections, new tokens and a reload",
    arguments: [KeyPair.Algorithm.p256, .rsa(2048)])
  func stayOpen(_ algorithm: KeyPair.Algorithm) throws {
    Self.raiseDescriptorLimit()
    let ground = try Ground()
    _ = try ground.certificate(KeyPair(algorithm))
    let server = try ground.serve([
      "SERVER_TLS_CERTIFICATE_FILE": ground.certificateFile,
      "SERVER_TLS_KEY_FILE": ground.directory.path(of: "tls.key"), "LOG_LEVEL": "warning",
      "AUDIT_FILE": ground.directory.path(of: "audit.log"),
    ])
    let clients = try (0..<Self.count).map { _ in try RawClient(port: server.port, isTLS: true) }
    for ttl in 600..<620 {
      #expect(try server.request("/token?ttl=\(ttl)", "--cacert", ground.certificateFile).status == 200)
    }
    server.process.signal(SIGHUP)
    try clients[0].send("GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(try clients[0].response()?.status == 200)
    withExtendedLifetime(clients) {}
    #expect(server.stop() == 0)
    #expect(server.log == "")
  }

  private static func raiseDescriptorLimit() {
    let descriptors = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    var limit = rlimit()
    guard unsafe getrlimit(descriptors, &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    unsafe setrlimit(descriptors, &limit)
  }
}
