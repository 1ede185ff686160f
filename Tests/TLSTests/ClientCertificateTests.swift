import COpenSSL
import Glibc
import TestSupport
import Testing

@testable import TLS

// The module under test has a type with this name.
private typealias Certificate = TestSupport.Certificate

@Suite("Client certificates")
struct ClientCertificateTests {
  /// The files of a server, and an authority whose clients the server accepts.
  private struct Ground {
    let files: Files
    let authority: Certificate
    let authorityFile: String

    init() throws {
      authority = try Certificate("CA", key: KeyPair(), isAuthority: true, notBefore: -10_000)
      files = try Files()
      authorityFile = try files.directory.write(authority.pem, to: "ca.pem")
    }

    func context(resuming previous: TLSContext? = nil) throws -> TLSContext {
      try files.context(clientCAFile: authorityFile, resuming: previous)
    }
  }

  /// The settings of a client with a certificate, whose files exist as long as this value.
  private struct Credential {
    let files: Files
    let settings: TLSClient.Settings

    init(_ certificate: Certificate, chain: [Certificate] = [], _ version: Version = .tls13) throws {
      files = try Files(certificate, chain: chain)
      var settings = version.settings
      settings.certificate = (files.certificateFile, files.keyFile)
      self.settings = settings
    }

    /// A client that sends the certificate, and resumes `session` if given.
    func client(_ session: TLSClient.Session? = nil) throws -> TLSClient {
      var settings = settings
      settings.session = session
      return try withExtendedLifetime(files) { try TLSClient(settings) }
    }
  }

  @Test(
    "have their names and their fingerprint, in a resumed session as well", .otherPrograms, arguments: Version.allCases)
  func names(version: Version) throws {
    let ground = try Ground()
    let names = [
      "URI:spiffe://example.com/partner", "DNS:Partner.example.com", "DNS:*.example.com", "email:ops@example.com",
      "IP:192.0.2.1", "IP:2001:db8::1", "URI:urn:other",
    ]
    let credential = try Credential(
      Certificate("partner", key: KeyPair(), issuer: ground.authority, alternativeNames: names), version)
    let context = try ground.context()
    let (client, server) = try (credential.client(), Server(context))
    try server.shakeHands(with: client)
    let certificate = try #require(server.session.clientCertificate)
    #expect(certificate.uris == ["spiffe://example.com/partner", "urn:other"])
    #expect(certificate.dnsNames == ["Partner.example.com", "*.example.com"])
    #expect(certificate.emailAddresses == ["ops@example.com"])
    #expect(certificate.ipAddresses == ["192.0.2.1", "2001:db8::1"])
    let said = try run(
      "openssl", ["x509", "-in", credential.files.certificateFile, "-noout", "-fingerprint", "-sha256"])
    let fingerprint = said.stdout.split(separator: "=").last?.filter { $0.isHexDigit }.lowercased()
    #expect(certificate.fingerprint == fingerprint)

    _ = client.read()
    var settings = version.settings
    settings.session = client.session
    let second = try Server(context)
    try second.shakeHands(with: TLSClient(settings))
    #expect(second.session.wasResumed)
    #expect(second.session.clientCertificate?.uris == certificate.uris)
    #expect(second.session.clientCertificate?.fingerprint == fingerprint)
  }

  @Test("without alternative names have no names: the common name does not count")
  func commonName() throws {
    let certificate = try shown(alternativeNames: [])
    #expect(certificate.dnsNames.isEmpty && certificate.uris.isEmpty && certificate.emailAddresses.isEmpty)
    #expect(certificate.fingerprint.count == 64)
  }

  @Test(
    "with an ambiguous alternative name have no names at all",
    arguments: [
      ("a NUL in a DNS name", "a.example\0.evil.example"), ("a NUL at the end", "a.example\0"),
      ("an empty one", ""), ("a space", "a example"), ("a line break", "a.example\nb"), ("no ASCII", "ä.example"),
    ])
  func dangerous(label: String, name: String) throws {
    for kind in [GEN_DNS, GEN_URI, GEN_EMAIL] {
      let names = try names([(GEN_URI, Array("spiffe://good".utf8)), (kind, Array(name.utf8))])
      #expect(names == AlternativeNames(), "\(label)")
    }
  }

  @Test("with an IP address of a wrong length have no names at all", arguments: [0, 3, 5, 8, 15, 17, 32])
  func oddAddress(length: Int) throws {
    let address = [UInt8](repeating: 1, count: length)
    #expect(try names([(GEN_DNS, Array("a".utf8)), (GEN_IPADD, address)]) == AlternativeNames())
  }

  @Test("may have thirty-two names, and have none with one more", arguments: [(32, true), (33, false)])
  func many(count: Int, areTaken: Bool) throws {
    let certificate = try shown(alternativeNames: (0..<count).map { "URI:urn:\($0)" })
    #expect(certificate.uris.count == (areTaken ? count : 0))
  }

  @Test("keep the names of known kinds beside names of other kinds")
  func otherKinds() throws {
    let certificate = try shown(alternativeNames: ["RID:1.2.3.4", "URI:urn:a", "otherName:1.2.3;UTF8:x"])
    #expect(certificate.uris == ["urn:a"])
  }

  @Test("for servers only are refused", arguments: Version.allCases)
  func purpose(version: Version) throws {
    let ground = try Ground()
    for (usage, isTaken) in [("serverAuth", false), ("clientAuth", true), ("serverAuth,clientAuth", true)] {
      let certificate = try Certificate(
        "partner", key: KeyPair(), issuer: ground.authority, extendedKeyUsage: usage)
      let client = try Credential(certificate, version).client()
      let server = try Server(ground.context())
      if isTaken {
        try server.shakeHands(with: client)
        #expect(server.session.clientCertificate != nil)
      } else {
        let error = #expect(throws: TLSError.self) { try server.shakeHands(with: client) }
        #expect(error?.cause == .certificateOfPeer)
      }
    }
  }

  @Test("of a named intermediate authority are accepted, without the root that signed the intermediate")
  func intermediate() throws {
    let root = try Certificate("root", key: KeyPair(), isAuthority: true)
    let middle = try Certificate("middle", key: KeyPair(), issuer: root, isAuthority: true)
    let other = try Certificate("other", key: KeyPair(), issuer: root, isAuthority: true)
    let files = try Files()
    let context = try files.context(clientCAFile: files.directory.write(middle.pem, to: "ca.pem"))
    let good = try Credential(Certificate("partner", key: KeyPair(), issuer: middle))
    let server = try Server(context)
    try server.shakeHands(with: good.client())
    #expect(server.session.clientCertificate != nil)
    let stranger = try Credential(Certificate("stranger", key: KeyPair(), issuer: other))
    let error = #expect(throws: TLSError.self) {
      try Server(context).shakeHands(with: stranger.client())
    }
    #expect(error?.cause == .certificateOfPeer)
  }

  @Test(
    "come with at most seven others, and only the first stays in memory", arguments: Version.allCases,
    [(7, nil), (8, .certificateOfPeer), (40, .violationByPeer)] as [(Int, TLSError.Cause?)])
  func chains(version: Version, length: (others: Int, refusal: TLSError.Cause?)) throws {
    let ground = try Ground()
    let certificate = try Certificate("partner", key: KeyPair(), issuer: ground.authority)
    let other = try Certificate("other", key: KeyPair())
    let chain = Array(repeating: other, count: length.others)
    let server = try Server(ground.context())
    let client = try Credential(certificate, chain: chain, version).client()
    // Forty exceed the bound for the message, before there is a list to count.
    if let refusal = length.refusal {
      let error = #expect(throws: TLSError.self) { try server.shakeHands(with: client) }
      #expect(error?.cause == refusal)
      return
    }
    try server.shakeHands(with: client)
    #expect(server.session.clientCertificate != nil)
    #expect(unsafe OPENSSL_sk_num(SSL_get_peer_cert_chain(server.session.ssl)) == 0)
  }

  @Test("are refused at the beginning of a message of more than 16 KiB", arguments: Version.allCases)
  func longList(version: Version) throws {
    let ground = try Ground()
    let names = (0..<1000).map { "DNS:\($0).a-name-of-twenty" }
    let certificate = try Certificate(
      "partner", key: KeyPair(), issuer: ground.authority, alternativeNames: names)
    let error = #expect(throws: TLSError.self) {
      try Server(ground.context()).shakeHands(with: Credential(certificate, version).client())
    }
    #expect(error?.cause == .violationByPeer)
    #expect(error?.reason?.contains("excessive message size") == true)
  }

  @Test("that have expired since the first handshake are refused instead of resumed", arguments: Version.allCases)
  func expiredTicket(version: Version) throws {
    let ground = try Ground()
    let certificate = try Certificate(
      "late", key: KeyPair(), issuer: ground.authority, notBefore: -7200, notAfter: -3600)
    let credential = try Credential(certificate, version)
    // A server whose clock is an hour and a half behind.
    let past = try ground.context()
    unsafe X509_VERIFY_PARAM_set_time(SSL_CTX_get0_param(past.handle.pointer), time(nil) - 5400)
    let client = try credential.client()
    let server = try Server(past)
    try server.shakeHands(with: client)
    client.receive(try server.send([1]))
    #expect(client.read() == [1])

    let again = try Server(ground.context(resuming: past))
    let second = try credential.client(client.session)
    let error = #expect(throws: TLSError.self) { try again.shakeHands(with: second) }
    #expect(error?.cause == .certificateOfPeer)
    #expect(again.session.clientCertificate == nil)
  }

  /// The certificate as a server sees it.
  private func shown(alternativeNames: [String]) throws -> ClientCertificate {
    let ground = try Ground()
    let credential = try Credential(
      Certificate("partner", key: KeyPair(), issuer: ground.authority, alternativeNames: alternativeNames))
    let server = try Server(ground.context())
    try server.shakeHands(with: credential.client())
    return try #require(server.session.clientCertificate)
  }

  /// The names that are read from a certificate with `names`, which no text form could express.
  private func names(_ names: [(kind: Int32, value: [UInt8])]) throws -> AlternativeNames {
    guard let certificate = unsafe X509_new(), let stack = unsafe OPENSSL_sk_new_null() else {
      throw TestFailure("There is no memory for a certificate.")
    }
    defer { unsafe X509_free(certificate) }
    defer { unsafe GENERAL_NAMES_free(stack) }
    for (kind, value) in names {
      let name = unsafe GENERAL_NAME_new()
      let string = unsafe ASN1_STRING_type_new(kind == GEN_IPADD ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING)
      unsafe ASN1_STRING_set(string, value, Int32(value.count))
      unsafe GENERAL_NAME_set0_value(name, kind, string)
      unsafe OPENSSL_sk_push(stack, name)
    }
    guard unsafe X509_add1_ext_i2d(certificate, NID_subject_alt_name, UnsafeMutableRawPointer(stack), 0, 0) == 1 else {
      throw TestFailure("OpenSSL does not take these names.")
    }
    return unsafe AlternativeNames(certificate)
  }
}
