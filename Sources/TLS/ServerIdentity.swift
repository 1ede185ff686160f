import COpenSSL

/// Whom a client's session is meant to be with, and what the verification of the certificate found.
final class ServerIdentity {
  let host: String

  /// What is wrong with the certificate, once it has been refused.
  private(set) var refusal: CertificateRefusal?

  private let tickets: SessionTickets
  private let caSetting: String

  init(_ host: String, tickets: SessionTickets, caSetting: String) {
    self.host = host
    self.caSetting = caSetting
    self.tickets = tickets
  }

  /// Asks for the host (RFC 6066 §3) and has the certificate verified to be for it (RFC 9525).
  /// - Throws: `configuration` if `host` is neither a name nor an address.
  func expect(on ssl: OpaquePointer) throws(TLSError) {
    // The session holds this object for as long as it holds the `SSL`.
    unsafe SSL_set_ex_data(ssl, Self.dataIndex, Unmanaged.passUnretained(self).toOpaque())
    let isAddress = unsafe X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1
    if !isAddress {
      let flags = UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT)
      unsafe SSL_set_hostflags(ssl, flags)
      guard isName, unsafe SSL_set1_host(ssl, host) == 1, unsafe SSL_set_tlsext_host_name(ssl, host) == 1 else {
        throw .configuration("'\(host)' is neither a host name nor an IP address.")
      }
    }
    unsafe tickets.offer(host, on: ssl)
  }

  /// Whether a certificate could be for it as a DNS name; OpenSSL would take anything.
  private var isName: Bool {
    (1...253).contains(host.utf8.count)
      && host.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"): true
        default: false
        }
      }
  }

  /// Has every session of `context` verify its server, and note here why one is refused.
  static func verify(on context: OpaquePointer) {
    unsafe SSL_CTX_set_verify(context, SSL_VERIFY_PEER) { isGood, store in
      if isGood == 0, let store = unsafe store { unsafe ServerIdentity.note(store) }
      return isGood
    }
  }

  static func of(_ ssl: OpaquePointer) -> ServerIdentity? {
    guard let data = unsafe SSL_get_ex_data(ssl, dataIndex) else { return nil }
    return unsafe Unmanaged<ServerIdentity>.fromOpaque(data).takeUnretainedValue()
  }

  /// The index of OpenSSL's `SSL_get_app_data`, which no library may take.
  private static let dataIndex: Int32 = 0

  private static func note(_ store: OpaquePointer) {
    let ssl = unsafe X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx())
    guard let ssl = unsafe ssl, let server = unsafe of(OpaquePointer(ssl)) else { return }
    server.refusal = unsafe CertificateRefusal(store)
  }

  // MARK: Tickets

  /// Takes over a reference to a session to resume.
  func keepTicket(_ session: OpaquePointer) {
    unsafe tickets.replace(host, with: session)
  }

  func forgetTicket() {
    unsafe tickets.replace(host, with: nil)
  }

  // MARK: Words

  /// What went wrong, for the client's operator; nil if the general sentence fits.
  /// - Parameter reason: OpenSSL's number.
  func sentence(for cause: TLSError.Cause, _ reason: Int32) -> String? {
    switch (cause, reason) {
    case (.certificateOfPeer, _): refusal?.sentence(host, caSetting: caSetting)
    case (.alertFromPeer, SSL_AD_REASON_OFFSET + SSL_AD_PROTOCOL_VERSION), (_, SSL_R_UNSUPPORTED_PROTOCOL):
      "\(host) does not speak TLS 1.2 or 1.3; older versions are not safe."
    case (.alertFromPeer, _): "\(host) ended the TLS session with the alert '\(Self.alert(reason))'."
    case (.violationByPeer, SSL_R_WRONG_VERSION_NUMBER): "\(host) does not speak TLS on this port."
    case (.violationByPeer, _): "\(host) broke the TLS protocol."
    default: nil
    }
  }

  /// An alert's name (RFC 8446 §6), from OpenSSL's number for it.
  private static func alert(_ reason: Int32) -> String {
    unsafe SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET).map { unsafe String(cString: $0) } ?? "unknown"
  }
}
