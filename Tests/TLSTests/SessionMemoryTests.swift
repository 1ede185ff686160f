import CLockedMemory
import COpenSSL
import TLS
import TestSupport
import Testing

/// What a session says that it holds, against what is freed with it.
@Suite("The memory of a session")
struct SessionMemoryTests {
  @Test("is exactly what OpenSSL holds for it, in each stage that a client may stop in", .otherPrograms)
  func counted() async {
    // OpenSSL takes memory functions only before its first allocation.
    await #expect(processExitsWith: .success) { try CountedSessions.check() }
  }
}

/// The process of the test.
private enum CountedSessions {
  static func check() throws {
    _ = locked_memory_prepare()
    try #require(
      unsafe CRYPTO_set_mem_functions(
        locked_memory_openssl_malloc, locked_memory_openssl_realloc, locked_memory_openssl_free) == 1)
    locked_memory_openssl_is_counted()
    let context = try Files().context()
    // What OpenSSL makes once, for the process and for this thread.
    for stage in Stage.allCases { _ = try stage.enter(with: context) }
    for stage in Stage.allCases {
      let ends = try stage.enter(with: context)
      var server: Server? = ends.server
      let claimed = try #require(server).session.memoryBytes
      #expect(claimed > stage.least && claimed < stage.least + 16_384, "\(stage): \(claimed)")
      let before = locked_memory_openssl_bytes()
      server = nil
      ends.release()
      #expect(before - locked_memory_openssl_bytes() == Int64(claimed), "\(stage): \(claimed)")
    }
  }

  /// Both ends of a connection, so that the client's memory outlives the server's.
  private final class Ends {
    private(set) var server: Server?
    let client: TLSClient

    init(_ server: Server, _ client: TLSClient) { (self.server, self.client) = (server, client) }

    func release() { server = nil }
  }

  private enum Stage: CaseIterable {
    case silent, halfHello, stalled, refused, established, answered

    /// The least that a session holds in this state, in bytes: OpenSSL's objects, an announced ClientHello, and the
    /// buffers and keys of a handshake, also of one that has failed.
    var least: Int {
      switch self {
      case .silent: 4_000
      case .halfHello, .refused: 48_000
      case .stalled: 36_000
      case .established, .answered: 8_000
      }
    }

    func enter(with context: TLSContext) throws -> Ends {
      let ends = Ends(try Server(context), try TLSClient())
      guard let server = ends.server else { return ends }
      switch self {
      case .silent: break
      case .halfHello: try server.receive([22, 3, 1, 0, 7, 1, 0, 0x3e, 0x80, 3, 3, 0])
      case .stalled:
        ends.client.receive([])
        try server.receive(ends.client.takeOutgoing())
      case .refused: #expect(throws: TLSError.self) { try server.receive([22, 3, 1, 0, 5, 1, 0, 0, 1, 0]) }
      case .established: try server.shakeHands(with: ends.client)
      case .answered:
        try server.shakeHands(with: ends.client)
        ends.client.receive(try server.send([UInt8](repeating: 1, count: 40_000)))
      }
      return ends
    }
  }
}
