import Bytes
import COpenSSL
import Glibc

/// A server's certificate with its chain and its private key, checked, for the DNS names in it.
///
/// `@unchecked Sendable`: for the reasons of ``TLSContext``.
public final class ServerCertificate: @unchecked Sendable {
  /// The path of the certificate's file.
  public let file: String
  /// The expiry time of the certificate, in seconds since 1970.
  public let notAfter: Int
  /// The problems of usable files for the operator: one sentence each.
  let findings: [String]
  /// The DNS names of the certificate.
  let names: [CertificateName]
  /// OpenSSL's place for certificate, chain and key. No session begins with it.
  let handle: TLSContext.Handle

  /// Loads and checks a certificate and its key.
  /// - Throws: `TLSError` with the cause `configuration`: a sentence that names the file and the fix.
  public init(certificate: PEMFile, key: PEMFile) throws(TLSError) {
    let handle = unsafe try TLSContext.Handle(TLS_server_method())
    var findings: [String] = []
    notAfter = try handle.load(certificate, key, &findings)
    names = unsafe CertificateName.all(of: handle.pointer)
    guard !names.isEmpty else {
      throw TLSError(
        .configuration,
        "The certificate in '\(certificate.path)' has no DNS name, so no client can request it; leave it out, or have "
          + "it issued with subject alternative names.")
    }
    (file, self.findings) = (certificate.path, findings)
    self.handle = handle
  }

  /// Makes a session use this certificate instead of that of its context. Returns false if OpenSSL refuses.
  func use(on ssl: OpaquePointer) -> Bool {
    guard let certificate = unsafe SSL_CTX_get0_certificate(handle.pointer),
      let key = unsafe SSL_CTX_get0_privatekey(handle.pointer)
    else { return false }
    // Otherwise a client that cannot use its algorithm would get the default certificate, with another name.
    unsafe SSL_certs_clear(ssl)
    return unsafe SSL_use_cert_and_key(ssl, certificate, key, SSL_CTX_get0_chain_certs(handle.pointer), 1) == 1
  }
}

/// A DNS name of a certificate: a host, or a wildcard for exactly one first label (RFC 9525 §6.3).
struct CertificateName: Hashable {
  /// The name in lower case. A wildcard's begins with the dot after the star.
  private let name: ByteString
  private let isWildcard: Bool

  /// The maximum number of names. Public authorities issue certificates with up to 100.
  private static let maximum: Int32 = 1000

  /// Returns the names of the context's certificate. Names with a star elsewhere match no host, so they are left out.
  static func all(of context: OpaquePointer) -> [CertificateName] {
    guard let certificate = unsafe SSL_CTX_get0_certificate(context) else { return [] }
    let names = unsafe AlternativeNames(certificate, atMost: maximum).dnsNames
    return names.compactMap { name in
      let bytes = Array(name.utf8)
      let isWildcard = bytes.starts(with: Array("*.".utf8)) && bytes.count > 2
      let rest = isWildcard ? bytes.dropFirst() : bytes[...]
      guard !rest.contains(UInt8(ascii: "*")) else { return nil }
      return CertificateName(name: ByteString(Array(rest)).lowercasedASCII, isWildcard: isWildcard)
    }
  }

  /// Returns the names that match a host, the exact one first.
  static func matching(_ host: ByteString) -> [CertificateName] {
    let host = host.lowercasedASCII
    let exact = CertificateName(name: host, isWildcard: false)
    guard let dot = host.bytes.firstIndex(of: UInt8(ascii: ".")), dot > 0 else { return [exact] }
    return [exact, CertificateName(name: ByteString(Array(host.bytes[dot...])), isWildcard: true)]
  }

  /// The name as in the certificate, in lower case.
  var text: String { (isWildcard ? "*" : "") + name.text }
}

/// The choice of a certificate by the requested name (SNI, RFC 6066 §3). The context's own is first, and the default.
///
/// A session with another certificate keeps its context, so tickets, their keys, client CAs, ALPN and policy are the same
/// for all names, and a session may be resumed with any of them: they grant the same.
final class CertificateChoice: Sendable {
  /// The further certificates, each with the name that identifies it in metrics.
  let certificates: [(name: String, certificate: ServerCertificate)]
  /// The findings about names in several certificates: one sentence each.
  let findings: [String]
  /// The certificate for each name; nil for the default.
  private let table: [CertificateName: ServerCertificate?]

  /// - Throws: `configuration` if all names of a certificate are in certificates before it.
  init(_ further: [ServerCertificate], default context: OpaquePointer, of file: String) throws(TLSError) {
    var table: [CertificateName: ServerCertificate?] = [:]
    var findings: [String] = []
    var certificates: [(name: String, certificate: ServerCertificate)] = []
    for name in unsafe CertificateName.all(of: context) { table[name] = .some(nil) }
    for certificate in further {
      var first: CertificateName?
      for name in certificate.names {
        if let earlier = table[name] {
          guard earlier !== certificate else { continue }
          findings.append(
            "The certificate in '\(certificate.file)' is not used for \(name.text), because the one in "
              + "'\(earlier?.file ?? file)' comes first.")
        } else {
          table[name] = .some(certificate)
          first = first ?? name
        }
      }
      guard let first else {
        throw TLSError(
          .configuration,
          "All names of the certificate in '\(certificate.file)' are in certificates before it, so the server would "
            + "never use it; leave it out.")
      }
      certificates.append((first.text, certificate))
    }
    (self.table, self.findings, self.certificates) = (table, findings, certificates)
  }

  /// Makes `context`, which must not outlive this object, choose the certificate in each full handshake.
  func decide(on context: OpaquePointer) {
    guard !certificates.isEmpty else { return }
    let opaque = unsafe Unmanaged.passUnretained(self).toOpaque()
    unsafe SSL_CTX_set_cert_cb(
      context,
      { ssl, opaque in
        guard let ssl = unsafe ssl, let opaque = unsafe opaque else { return 0 }
        let choice = unsafe Unmanaged<CertificateChoice>.fromOpaque(opaque).takeUnretainedValue()
        return unsafe choice.choose(for: ssl) ? 1 : 0
      }, opaque)
  }

  /// Returns false if OpenSSL refuses the certificate, which ends the handshake.
  private func choose(for ssl: OpaquePointer) -> Bool {
    // At most 255 bytes without NUL, which OpenSSL checks.
    guard let requested = unsafe SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) else { return true }
    let host = unsafe ByteString(
      UnsafeBufferPointer(start: requested, count: strlen(requested)).map { UInt8(truncatingIfNeeded: $0) })
    let entry = CertificateName.matching(host).lazy.compactMap { self.table[$0] }.first
    guard let certificate = entry ?? nil else { return true }
    return unsafe certificate.use(on: ssl)
  }
}
