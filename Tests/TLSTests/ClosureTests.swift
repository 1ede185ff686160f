import COpenSSL
import TLS
import TestSupport
import Testing

@Suite("The end of a session")
struct ClosureTests {
  @Test(
    "after the client's close_notify, the session ignores further bytes, and the server may still respond",
    arguments: Version.allCases)
  func closedByPeer(version: Version) throws {
    let client = try TLSClient(version.settings)
    let server = try Server(Files().context())
    try server.shakeHands(with: client)
    #expect(try server.receive(client.write([1]) + client.close()) == .closedByPeer)
    #expect(server.plaintext == [1])
    #expect(!server.session.isEstablished)
    #expect(try server.receive([1, 2, 3]) == .closedByPeer, "what follows is ignored")
    #expect(try !server.send([2]).isEmpty)
  }

  @Test("the server's close_notify reaches the client, and is sent once", arguments: Version.allCases)
  func closesOnce(version: Version) throws {
    let client = try TLSClient(version.settings)
    let server = try Server(Files().context())
    try server.shakeHands(with: client)
    client.receive(server.close())
    #expect(client.read().isEmpty)
    #expect(client.isClosedByServer)
    #expect(server.close().isEmpty)
    #expect(throws: TLSError.self) { try server.send([1]) }
  }

  @Test("a session without a handshake closes without a byte and refuses to send")
  func beforeTheHandshake() throws {
    let server = try Server(Files().context())
    let error = #expect(throws: TLSError.self) { try server.send([1]) }
    #expect(error?.cause == .internalFailure)
    #expect(server.close().isEmpty)
  }

  @Test("an alert from the client is reported as an alert", arguments: Version.allCases)
  func alertFromPeer(version: Version) throws {
    let client = try TLSClient(version.settings)
    // The client trusts no authority, so the certificate makes it fail.
    unsafe SSL_set_verify(client.ssl, SSL_VERIFY_PEER, nil)
    let server = try Server(Files().context())
    let error = #expect(throws: TLSError.self) { try server.shakeHands(with: client) }
    #expect(error?.cause == .alertFromPeer)
    #expect(error?.description.contains("alert") == true)
  }
}
