import COpenSSL
import TLS
import TestSupport
import Testing

@Suite("A handshake")
struct NegotiationTests {
  @Test("negotiates the version, cipher and protocol, and has the server name")
  func namesWhatWasSettled() throws {
    let client = try TLSClient(TLSClient.Settings(serverName: "music.example"))
    let server = try Server(Files().context())
    #expect(server.session.cipher == nil)
    try server.shakeHands(with: client)
    #expect(server.session.version == "TLSv1.3")
    #expect(server.session.cipher == "TLS_AES_256_GCM_SHA384")
    #expect(server.session.serverName == "music.example")
    #expect(server.session.applicationProtocol == "http/1.1")
    #expect(server.session.clientCertificate == nil)
    #expect(!server.session.wasResumed)
  }

  @Test("selects the protocol that the server prefers", arguments: Version.allCases)
  func prefersItsOwnOrder(version: Version) throws {
    var settings = version.settings
    settings.protocols = ["http/1.1", "h2"]
    let server = try Server(Files().context(applicationProtocols: ["h2", "http/1.1"]))
    try server.shakeHands(with: TLSClient(settings))
    #expect(server.session.applicationProtocol == "h2")
  }

  @Test("succeeds without a protocol if the client offers none", arguments: Version.allCases)
  func withoutALPN(version: Version) throws {
    var settings = version.settings
    settings.protocols = []
    let server = try Server(Files().context())
    try server.shakeHands(with: TLSClient(settings))
    #expect(server.session.isEstablished)
    #expect(server.session.applicationProtocol == nil)
  }

  @Test("ends with no_application_protocol if the client offers only others", arguments: Version.allCases)
  func refusesOtherProtocols(version: Version) throws {
    var settings = version.settings
    settings.protocols = ["h2", "spdy/3"]
    let (error, alert) = try refusal(of: settings)
    #expect(error?.cause == .violationByPeer)
    #expect(alert.suffix(2) == [2, UInt8(SSL_AD_NO_APPLICATION_PROTOCOL)])
  }

  @Test("selects http/1.0 for a client that offers nothing newer", arguments: Version.allCases)
  func oldHTTP(version: Version) throws {
    var settings = version.settings
    settings.protocols = ["http/1.0"]
    let files = try Files()
    let server = try Server(TLSContext(certificateFile: files.certificateFile, keyFile: files.keyFile))
    try server.shakeHands(with: TLSClient(settings))
    #expect(server.session.applicationProtocol == "http/1.0")
  }

  @Test(
    "refuses obsolete versions and ciphers, and an unsupported group",
    arguments: [
      ("CBC", TLSClient.Settings(version: TLS1_2_VERSION, cipherList: "ECDHE-ECDSA-AES128-SHA256")),
      ("finite-field DHE", TLSClient.Settings(version: TLS1_2_VERSION, cipherList: "DHE-RSA-AES128-GCM-SHA256")),
      ("static RSA", TLSClient.Settings(version: TLS1_2_VERSION, cipherList: "AES128-GCM-SHA256")),
      ("TLS 1.1", TLSClient.Settings(version: TLS1_1_VERSION, cipherList: "DEFAULT@SECLEVEL=0")),
      ("a group of its own", TLSClient.Settings(groups: "P-521")),
    ] as [(String, TLSClient.Settings)])
  func refusesWeakness(label: String, settings: TLSClient.Settings) throws {
    let (error, alert) = try refusal(of: settings)
    #expect(error?.cause == .violationByPeer, "\(label)")
    #expect(alert.first == 21, "an alert record")
  }

  @Test("succeeds without a client certificate even if the server has a client CA")
  func clientCertificateIsOptional() throws {
    let authority = try Certificate("CA", key: KeyPair(), isAuthority: true)
    let files = try Files()
    let authorityFile = try files.directory.write(authority.pem, to: "ca.pem")
    let server = try Server(files.context(clientCAFile: authorityFile))
    try server.shakeHands(with: TLSClient())
    #expect(server.session.isEstablished)
    #expect(server.session.clientCertificate == nil)
  }

  @Test("ends if the client certificate is of an unknown authority or has expired", arguments: Version.allCases)
  func badClientCertificate(version: Version) throws {
    let authority = try Certificate("CA", key: KeyPair(), isAuthority: true)
    let files = try Files()
    let authorityFile = try files.directory.write(authority.pem, to: "ca.pem")
    let stranger = try Certificate("stranger", key: KeyPair())
    let expired = try Certificate("late", key: KeyPair(), issuer: authority, notBefore: -7200, notAfter: -3600)
    for (certificate, alert) in [(stranger, SSL_AD_UNKNOWN_CA), (expired, SSL_AD_CERTIFICATE_EXPIRED)] {
      let credential = try Files(certificate)
      let server = try Server(files.context(clientCAFile: authorityFile))
      var settings = version.settings
      settings.certificate = (credential.certificateFile, credential.keyFile)
      let client = try TLSClient(settings)
      let error = #expect(throws: TLSError.self) { try server.shakeHands(with: client) }
      #expect(error?.cause == .certificateOfPeer)
      #expect(error?.message.hasPrefix("The peer's certificate is invalid: ") == true)
      client.receive(server.takeOutgoing())
      _ = client.read()
      #expect(client.failure == 1000 + alert)
    }
  }

  @Test(
    "that fails has a cause",
    arguments: [
      (.unsupportedVersion, TLSClient.Settings(version: TLS1_1_VERSION, cipherList: "DEFAULT@SECLEVEL=0")),
      (.nothingShared, TLSClient.Settings(version: TLS1_2_VERSION, cipherList: "AES128-GCM-SHA256")),
      (.nothingShared, TLSClient.Settings(groups: "P-521")),
      (.noApplicationProtocol, TLSClient.Settings(protocols: ["h2"])),
      (.untrustedCertificate, TLSClient.Settings(verifies: true)),
    ] as [(TLSFailure, TLSClient.Settings)])
  func cause(failure: TLSFailure, settings: TLSClient.Settings) throws {
    #expect(try refusal(of: settings).0?.failure == failure)
  }

  private func refusal(of settings: TLSClient.Settings) throws -> (TLSError?, [UInt8]) {
    let server = try Server(Files().context())
    let client = try TLSClient(settings)
    let error = #expect(throws: TLSError.self) { try server.shakeHands(with: client) }
    return (error, server.takeOutgoing())
  }
}
