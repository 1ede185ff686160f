import TLS
import TestSupport
import Testing

@Suite("A client's session")
struct ClientTests {
  private let directory: TemporaryDirectory
  private let authority: Certificate

  init() throws {
    directory = try TemporaryDirectory()
    authority = try Certificate("Test CA", key: KeyPair(), isAuthority: true)
    try directory.write(authority.pem, to: "ca.pem")
  }

  private func trusting() throws -> TLSClientContext {
    try TLSClientContext(caFile: directory.path(of: "ca.pem"))
  }

  private func server(
    _ names: [String] = ["DNS:localhost", "IP:127.0.0.1", "IP:::1"], notBefore: Int = -3600, notAfter: Int = 86_400,
    protocols: [String] = ["h2", "http/1.1"]
  ) throws -> TLSContext {
    let leaf = try Certificate(
      key: KeyPair(), issuer: authority, alternativeNames: names, notBefore: notBefore, notAfter: notAfter)
    return try Files(leaf).context(applicationProtocols: protocols)
  }

  @Test(
    "carries bytes both ways, and knows the negotiated version and protocol",
    arguments: ["localhost", "127.0.0.1", "::1"])
  func exchange(host: String) throws {
    let server = try Server(server())
    let client = try Client(trusting(), host: host, protocols: ["h2", "http/1.1"])
    try client.shakeHands(with: server)
    #expect(client.session.isEstablished)
    #expect(client.session.version == "TLSv1.3")
    #expect(client.session.applicationProtocol == "h2")
    #expect(server.session.serverName == (host == "localhost" ? host : nil), "an address is no name (RFC 6066 §3)")
    try server.receive(client.send([1, 2, 3]))
    #expect(server.plaintext == [1, 2, 3])
    try client.receive(server.send([4, 5]))
    #expect(client.plaintext == [4, 5])
    #expect(try client.receive(server.close()) == .closedByPeer)
  }

  @Test("falls back to HTTP/1.1 with a server without h2")
  func fallsBack() throws {
    let client = try Client(trusting(), protocols: ["h2", "http/1.1"])
    try client.shakeHands(with: Server(server(protocols: ["http/1.1"])))
    #expect(client.session.applicationProtocol == "http/1.1")
  }

  @Test("trusts other authorities from the next session on, and resumes no session that the former ones verified")
  func otherAuthorities() throws {
    let (context, trusting) = try (server(), trusting())
    let other = try Certificate("Other CA", key: KeyPair(), isAuthority: true)
    let file = try directory.write(other.pem, to: "other.pem")
    let first = try (Server(context), Client(trusting))
    try first.1.shakeHands(with: first.0)
    trusting.replace(by: try TLSClientContext(caFile: file))
    #expect(trusting.current !== trusting)
    #expect(throws: (any Error).self) { try Client(trusting).shakeHands(with: Server(context)) }
    // An open session goes on.
    try first.0.receive(first.1.send([1]))
    #expect(first.0.plaintext == [1])
    let own = try Files(Certificate(key: KeyPair(), issuer: other, alternativeNames: ["DNS:localhost"])).context()
    try Client(trusting).shakeHands(with: Server(own))
    trusting.replace(by: try self.trusting())
    try Client(trusting).shakeHands(with: Server(context))
    // The system's store is not read again, and nil means that there is nothing to replace.
    let system = try TLSClientContext()
    system.replace(by: try TLSClientContext())
    system.replace(by: nil)
    #expect(system.current === system)
  }

  @Test(
    "resumes with the ticket of the session before, only with the same host", arguments: Version.allCases)
  func resumption(version: Version) throws {
    let (context, trusting) = try (server(), trusting())
    for number in 0..<3 {
      let server = try Server(context)
      let client = try Client(trusting)
      try client.shakeHands(with: server)
      try client.receive(server.send([1]))
      #expect(client.session.wasResumed == (number > 0))
    }
    let other = try Client(trusting, host: "127.0.0.1")
    try other.shakeHands(with: Server(context))
    #expect(!other.session.wasResumed, "a ticket is for the host whose certificate was verified")
  }

  /// A defect of a certificate, and words that the error must contain.
  struct Refusal: CustomTestStringConvertible, Sendable {
    let testDescription: String
    var host = "localhost"
    var names = ["DNS:localhost"]
    var notBefore = -7200
    var notAfter = 86_400
    let words: [String]
  }

  @Test(
    "reports the defect of a certificate",
    arguments: [
      Refusal(testDescription: "expired", notAfter: -3600, words: ["expired on 20", "localhost"]),
      Refusal(testDescription: "early", notBefore: 3600, words: ["is not valid before 20", "clock"]),
      Refusal(
        testDescription: "other names", names: ["DNS:a.example", "DNS:b.example"],
        words: ["localhost", "DNS:a.example, DNS:b.example"]),
      Refusal(testDescription: "no names", names: [], words: ["for no host"]),
      Refusal(testDescription: "other address", host: "127.0.0.2", names: ["IP:127.0.0.1"], words: ["127.0.0.1"]),
      Refusal(testDescription: "address as a name", host: "127.0.0.1", names: ["DNS:127.0.0.1"], words: ["127.0.0.1"]),
      Refusal(
        testDescription: "part of a label", host: "abc.example", names: ["DNS:a*.example"], words: ["a*.example"]),
    ])
  func refusals(_ refusal: Refusal) throws {
    let server = try server(refusal.names, notBefore: refusal.notBefore, notAfter: refusal.notAfter)
    let error = #expect(throws: TLSError.self) {
      try Client(trusting(), host: refusal.host).shakeHands(with: Server(server))
    }
    #expect(error?.cause == .certificateOfPeer)
    for word in refusal.words { #expect(error?.message.contains(word) == true, "\(error?.message ?? "")") }
  }

  @Test("explains how to trust an unknown CA or a self-signed certificate")
  func unknownAuthority() throws {
    let stranger = try Certificate("Stranger", key: KeyPair(), isAuthority: true)
    let leaf = try Certificate(key: KeyPair(), issuer: stranger)
    for (certificate, word) in [(leaf, "Stranger"), (try Certificate(key: KeyPair()), "self-signed")] {
      let server = try Server(Files(certificate).context())
      let error = #expect(throws: TLSError.self) { try Client(trusting()).shakeHands(with: server) }
      #expect(error?.cause == .certificateOfPeer)
      #expect(error?.message.contains(word) == true)
      #expect(error?.message.contains("catalog.caFile") == true)
    }
  }

  @Test("names the setting of its own CA file")
  func settingNamed() throws {
    let files = try Files()
    let context = try TLSClientContext(caFile: files.certificateFile, caSetting: "jwt.caFile")
    let error = #expect(throws: TLSError.self) { try Client(context).shakeHands(with: Server(Files().context())) }
    #expect(error?.message.contains("jwt.caFile") == true)
    #expect(error?.message.contains("catalog.caFile") == false)
  }

  @Test("trusts a self-signed certificate that is the CA file")
  func pinned() throws {
    let files = try Files()
    let client = try Client(TLSClientContext(caFile: files.certificateFile))
    try client.shakeHands(with: Server(files.context()))
    #expect(client.session.isEstablished)
  }

  @Test("sends an alert when it refuses a certificate")
  func alertSent() throws {
    let server = try Server(Files().context())
    let client = try Client(trusting())
    #expect(throws: TLSError.self) { try client.shakeHands(with: server) }
    let error = #expect(throws: TLSError.self) { try server.receive(client.takeOutgoing()) }
    #expect(error?.cause == .alertFromPeer)
  }

  @Test(
    "reports the alert that ended the handshake, an old version, or a port without TLS",
    arguments: [
      ([21, 3, 3, 0, 2, 2, 40], .alertFromPeer, "alert 'handshake failure'"),
      ([21, 3, 3, 0, 2, 2, 70], .alertFromPeer, "TLS 1.2 or 1.3"),
      (Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8), .violationByPeer, "does not speak TLS on this port"),
    ] as [([UInt8], TLSError.Cause, String)])
  func otherEnds(bytes: [UInt8], cause: TLSError.Cause, words: String) throws {
    let client = try Client(trusting())
    let error = #expect(throws: TLSError.self) { try client.receive(bytes) }
    #expect(error?.cause == cause)
    #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
    #expect(error?.message.contains("localhost") == true)
  }

  @Test("refuses an invalid host", arguments: ["", "a b", "a\0b"])
  func badHosts(host: String) throws {
    let error = #expect(throws: TLSError.self) { try Client(trusting(), host: host) }
    #expect(error?.cause == .configuration)
  }

  @Test("refuses a CA file that is unreadable or holds no certificate")
  func badFiles() throws {
    for path in ["/nonexistent", try directory.write("hello", to: "text.pem")] {
      let error = #expect(throws: TLSError.self) { try TLSClientContext(caFile: path) }
      #expect(error?.cause == .configuration)
      #expect(error?.message.contains(path) == true)
    }
  }
}
