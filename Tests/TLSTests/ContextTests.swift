import TLS
import TestSupport
import Testing

@Suite("A context")
struct ContextTests {
  private let directory: TemporaryDirectory
  private let certificate: Certificate

  init() throws {
    directory = try TemporaryDirectory()
    certificate = try Certificate(key: KeyPair())
    try directory.write(certificate.pem, to: "certificate.pem")
    try directory.write(certificate.key.pem, to: "key.pem")
  }

  @Test("with good files has no findings and knows when the certificate expires", .otherPrograms)
  func goodFiles() throws {
    let context = try Files().context()
    #expect(context.findings.isEmpty)
    let now = try #require(Int(run("date", ["+%s"]).stdout.dropLast()))
    #expect((now + 86_000...now + 86_400).contains(context.certificateNotAfter))
  }

  @Test("accepts a chain, and reports a wrong order")
  func chains() throws {
    let root = try Certificate("root", key: KeyPair(), isAuthority: true)
    let intermediate = try Certificate("intermediate", key: KeyPair(), issuer: root, isAuthority: true)
    let leaf = try Certificate(key: KeyPair(), issuer: intermediate)
    #expect(try Files(leaf, chain: [intermediate, root]).context().findings.isEmpty)
    let findings = try Files(leaf, chain: [root, intermediate]).context().findings
    #expect(findings.contains { $0.contains("Certificate 2") && $0.contains("leaf first") })
  }

  @Test("reports a certificate that has expired or is not valid yet, and still works")
  func lifetimes() throws {
    let expired = try Files(Certificate(key: KeyPair(), notBefore: -7200, notAfter: -3600)).context()
    #expect(expired.findings.count == 1)
    #expect(expired.findings.first?.contains("has expired") == true)
    let early = try Files(Certificate(key: KeyPair(), notBefore: 3600)).context()
    #expect(early.findings.first?.contains("not valid before 20") == true)
    try Server(early).shakeHands(with: TLSClient())
  }

  @Test("reports client CAs that have expired or are not valid yet, once for a file")
  func authorityLifetimes() throws {
    let files = try Files()
    let authorities = try [(-7200, -3600), (-7200, 3600), (-7200, -60), (3600, 7200)].map { notBefore, notAfter in
      try Certificate("CA", key: KeyPair(), isAuthority: true, notBefore: notBefore, notAfter: notAfter).pem
    }
    let file = try files.directory.write(authorities.joined(), to: "ca.pem")
    let findings = try files.context(clientCAFile: file).findings
    #expect(findings.count == 2)
    #expect(findings.first?.contains("2 of 4 CA certificates in '\(file)' have expired") == true)
    #expect(findings.last?.contains("1 of 4") == true && findings.last?.contains("certificate 4") == true)
    #expect(try TLSClientContext(caFile: file).findings == findings)
  }

  @Test("reports a key file that every user can read")
  func readableKey() throws {
    let readable = try Files(certificate, keyMode: 0o644).context()
    #expect(readable.findings.first?.contains("can read the key file") == true)
    #expect(try Files(certificate, keyMode: 0o640).context().findings.isEmpty, "a group may be meant to")
  }

  @Test(
    "refuses a key file that its group or every user can write", arguments: [0o620, 0o602, 0o660, 0o666] as [UInt32])
  func writableKey(mode: UInt32) throws {
    let error = #expect(throws: TLSError.self) { try Files(certificate, keyMode: mode).context() }
    #expect(error?.cause == .configuration)
    #expect(error?.message.contains("can write to the key file") == true)
    #expect(error?.message.contains("chmod 600") == true)
  }

  @Test(
    "names the certificate file and its defect",
    arguments: [
      ("missing.pem", "cannot be read: No such file or directory"),
      ("", "is a directory"),
      ("empty.pem", "is empty"),
      ("text.pem", "contains no certificate but nothing in PEM form"),
      ("key.pem", "contains no certificate but a PEM block labelled 'PRIVATE KEY'"),
      ("damaged.pem", "Certificate 1 in"),
      ("second-damaged.pem", "Certificate 2 in"),
      ("weak.pem", "is too weak"),
    ])
  func badCertificates(name: String, fault: String) throws {
    try directory.write("", to: "empty.pem")
    try directory.write("hello", to: "text.pem")
    let damaged = certificate.pem.replacing("MI", with: "AA", maxReplacements: 1)
    try directory.write(damaged, to: "damaged.pem")
    try directory.write(certificate.pem + damaged, to: "second-damaged.pem")
    try directory.write(Certificate(key: KeyPair(.rsa(1024))).pem, to: "weak.pem")
    let message = refusal(certificateFile: name, keyFile: "key.pem")
    #expect(message.contains(name.isEmpty ? directory.path : directory.path(of: name)))
    #expect(message.contains(fault))
  }

  @Test(
    "names the key file and its defect",
    arguments: [
      ("missing.pem", "cannot be read: No such file or directory"),
      ("certificate.pem", "contains no usable private key but a PEM block labelled 'CERTIFICATE'"),
      ("encrypted.pem", "is encrypted; decrypt it with 'openssl pkey -in"),
      ("damaged.pem", "contains no usable private key"),
      ("other.pem", "does not belong to the certificate in"),
      ("rsa.pem", "does not belong to the certificate in"),
      ("public.pem", "labelled 'PUBLIC KEY'"),
    ])
  func badKeys(name: String, fault: String) throws {
    let key = certificate.key
    try directory.write(key.encryptedPEM(passphrase: "secret"), to: "encrypted.pem")
    try directory.write(key.pem.replacing("MI", with: "AA", maxReplacements: 1), to: "damaged.pem")
    try directory.write(KeyPair().pem, to: "other.pem")
    try directory.write(KeyPair(.rsa(2048)).pem, to: "rsa.pem")
    try directory.write(key.publicPEM, to: "public.pem")
    let message = refusal(certificateFile: "certificate.pem", keyFile: name)
    #expect(message.contains(name.isEmpty ? directory.path : directory.path(of: name)))
    #expect(message.contains(fault))
  }

  @Test("never includes a byte of the key in an error")
  func keepsTheKeyToItself() throws {
    let lines = certificate.key.pem.split(separator: "\n").dropFirst().dropLast()
    try directory.write(certificate.key.pem.replacing("-----END", with: "----END"), to: "cut.pem")
    for keyFile in ["cut.pem", "certificate.pem"] {
      let message = refusal(certificateFile: keyFile == "cut.pem" ? "certificate.pem" : "key.pem", keyFile: keyFile)
      for line in lines { #expect(!message.contains(line)) }
    }
  }

  @Test("refuses a client CA file without a certificate")
  func badAuthority() throws {
    let error = #expect(throws: TLSError.self) {
      try Files().context(clientCAFile: directory.path(of: "key.pem"))
    }
    #expect(error?.cause == .configuration)
    #expect(error?.message.contains("contains no certificate but") == true)
  }

  @Test("refuses an ALPN name that TLS cannot carry", arguments: ["", String(repeating: "a", count: 256)])
  func badProtocol(name: String) throws {
    let error = #expect(throws: TLSError.self) { try Files().context(applicationProtocols: ["h2", name]) }
    #expect(error?.cause == .configuration)
  }

  private func refusal(certificateFile: String, keyFile: String) -> String {
    let error = #expect(throws: TLSError.self) {
      try TLSContext(certificateFile: directory.path(of: certificateFile), keyFile: directory.path(of: keyFile))
    }
    #expect(error?.cause == .configuration)
    return error?.description ?? ""
  }
}
