import COpenSSL
import TLS
import TestSupport
import Testing

@Suite("A context with several certificates")
struct ServerNameTests {
  /// A certificate with these names, in files of its own. The first name is also its common name.
  private static func files(_ names: [String], _ key: KeyPair? = nil) throws -> Files {
    try Files(
      Certificate(names[0], key: try key ?? KeyPair(), alternativeNames: names.map { "DNS:\($0)" }))
  }

  private static func certificate(_ names: [String], _ key: KeyPair? = nil) throws -> ServerCertificate {
    try certificate(files(names, key))
  }

  private static func certificate(_ files: Files) throws -> ServerCertificate {
    try ServerCertificate(certificate: PEMFile(reading: files.certificateFile), key: PEMFile(reading: files.keyFile))
  }

  private static func context(
    _ names: [String] = ["default.example"], _ key: KeyPair? = nil, further: [ServerCertificate],
    clientCA: String? = nil, resuming previous: TLSContext? = nil
  ) throws -> TLSContext {
    let own = try files(names, key)
    return try TLSContext(
      certificate: PEMFile(reading: own.certificateFile), key: PEMFile(reading: own.keyFile), further: further,
      clientCA: clientCA.map { try PEMFile(reading: $0) }, applicationProtocols: ["http/1.1"],
      resumingTicketsOf: previous)
  }

  /// The common name of the certificate that a client gets.
  private static func served(
    _ context: TLSContext, _ name: String, _ version: Version, ciphers: String? = nil
  ) throws -> String? {
    let client = try TLSClient(
      TLSClient.Settings(version: version.number, serverName: name, cipherList: ciphers))
    try? Server(context).shakeHands(with: client)
    return client.isEstablished ? client.commonName : nil
  }

  @Test(
    "serves the certificate of the requested name, else the default",
    arguments: [
      ("default.example", "default.example"), ("a.example", "a.example"), ("A.Example", "a.example"),
      ("second.example", "a.example"), ("x.b.example", "*.b.example"), ("X.B.EXAMPLE", "*.b.example"),
      ("exact.b.example", "exact.b.example"), ("own.b.example", "default.example"),
      ("y.x.b.example", "default.example"),
      ("b.example", "default.example"), ("unknown.example", "default.example"), ("example", "default.example"),
      ("a.example.", "default.example"), ("*.b.example", "*.b.example"),
    ], Version.allCases)
  func choice(_ names: (String, String), _ version: Version) throws {
    let context = try Self.context(
      ["default.example", "own.b.example"],
      further: [
        Self.certificate(["a.example", "second.example"]), Self.certificate(["*.b.example"]),
        Self.certificate(["exact.b.example"]),
      ])
    #expect(try Self.served(context, names.0, version) == names.1)
    #expect(context.findings.isEmpty)
  }

  @Test("serves certificates with keys of different kinds, and never another name's", arguments: Version.allCases)
  func kinds(_ version: Version) throws {
    let context = try Self.context(
      ["rsa.example"], KeyPair(.rsa(2048)), further: [Self.certificate(["ec.example"], KeyPair(.p256))])
    #expect(try Self.served(context, "rsa.example", version) == "rsa.example")
    #expect(try Self.served(context, "ec.example", version) == "ec.example")
    let onlyRSA = "ECDHE-RSA-AES128-GCM-SHA256"
    #expect(try Self.served(context, "rsa.example", .tls12, ciphers: onlyRSA) == "rsa.example")
    #expect(try Self.served(context, "ec.example", .tls12, ciphers: onlyRSA) == nil)
  }

  @Test("sends the chain of the chosen certificate")
  func chain() throws {
    let authority = try Certificate("CA", key: KeyPair(), isAuthority: true)
    let leaf = try Certificate("a.example", key: KeyPair(), issuer: authority, alternativeNames: ["DNS:a.example"])
    let context = try Self.context(further: [Self.certificate(Files(leaf, chain: [authority]))])
    let client = try TLSClient(TLSClient.Settings(serverName: "a.example"))
    try Server(context).shakeHands(with: client)
    #expect(client.chainLength == 2)
  }

  @Test(
    "resumes sessions of each name, and requests client certificates and ALPN for each", arguments: Version.allCases)
  func common(_ version: Version) throws {
    let authority = try Certificate("CA", key: KeyPair(), isAuthority: true)
    let own = try Files(Certificate("client", key: KeyPair(), issuer: authority, alternativeNames: ["URI:urn:client"]))
    let file = try own.directory.write(authority.pem, to: "ca.pem")
    let context = try Self.context(further: [Self.certificate(["a.example"])], clientCA: file)
    var settings = TLSClient.Settings(
      version: version.number, serverName: "a.example", certificate: (own.certificateFile, own.keyFile))
    let first = try (Server(context), TLSClient(settings))
    try first.0.shakeHands(with: first.1)
    #expect(first.1.commonName == "a.example")
    #expect(first.0.session.clientCertificate?.uris == ["urn:client"])
    #expect(first.0.session.applicationProtocol == "http/1.1")
    _ = first.1.read()
    settings.session = first.1.session
    let second = try (Server(context), TLSClient(settings))
    try second.0.shakeHands(with: second.1)
    #expect(unsafe SSL_session_reused(second.1.ssl) == 1)
    #expect(second.0.session.clientCertificate?.uris == ["urn:client"])
  }

  @Test("keeps tickets while every key stays, and drops them with any key", arguments: Version.allCases)
  func tickets(_ version: Version) throws {
    let (key, other) = try (KeyPair(), KeyPair())
    let old = try Self.context(["d.example"], key, further: [Self.certificate(["a.example"], other)])
    let session = try Tickets.session(from: old, version)
    let more = try Self.context(
      ["d.example"], key, further: [Self.certificate(["b.example"]), Self.certificate(["a.example"], other)],
      resuming: old)
    #expect(try Tickets.resumes(session, with: more, version))
    for further in [[], [try Self.certificate(["a.example"])]] {
      let next = try Self.context(["d.example"], key, further: further, resuming: old)
      #expect(try !Tickets.resumes(session, with: next, version))
    }
  }

  @Test("the first certificate with a name serves it, and a finding says so")
  func precedence() throws {
    let (first, second) = try (Self.certificate(["a.example"]), Self.certificate(["b.example", "a.example"]))
    let context = try Self.context(["default.example", "c.example"], further: [first, second])
    #expect(
      context.findings == [
        "The certificate in '\(second.file)' is not used for a.example, because the one in '\(first.file)' comes first."
      ])
    #expect(context.furtherCertificates.map(\.name) == ["a.example", "b.example"])
    let error = #expect(throws: TLSError.self) {
      try Self.context(["default.example", "c.example"], further: [Self.certificate(["c.example"])])
    }
    #expect(error?.message.contains("are in certificates before it, so the server would never use it") == true)
  }

  @Test("refuses a certificate without a DNS name")
  func nameless() throws {
    let error = #expect(throws: TLSError.self) {
      try Self.certificate(Files(Certificate("a.example", key: KeyPair(), alternativeNames: ["IP:127.0.0.1"])))
    }
    #expect(error?.message.contains("has no DNS name, so no client can request it") == true)
  }
}

extension TLSClient {
  /// The common name of the server's certificate.
  fileprivate var commonName: String? {
    guard let certificate = unsafe SSL_get1_peer_certificate(ssl) else { return nil }
    defer { unsafe X509_free(certificate) }
    var text = [CChar](repeating: 0, count: 256)
    let count = unsafe X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, &text, 256)
    guard count >= 0 else { return nil }
    return String(decoding: text.prefix(Int(count)).map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
  }

  /// The number of certificates that the server has sent.
  fileprivate var chainLength: Int32 { unsafe OPENSSL_sk_num(SSL_get_peer_cert_chain(ssl)) }
}
