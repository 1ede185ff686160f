import Bytes
import COpenSSL
import Glibc
import Locks

/// A client's trusted CAs and the policy of ``TLSContext``, for any number of sessions on any thread. The chain and host
/// name of every server are verified. The client keeps and offers the latest session ticket of each host.
///
/// `@unchecked Sendable`: for the reasons of ``TLSContext``. The tickets have their own lock, and the system's CAs are
/// read with `lacksSystemStore` locked, before the first session is made.
public final class TLSClientContext: @unchecked Sendable {
  /// The limits on the cost of a server.
  public let limits: TLSLimits
  /// The problems of usable CAs for the operator: one sentence each.
  public let findings: [String]
  /// The earliest expiry time of the CAs in the file, in seconds since 1970; nil for the system's CAs.
  public let authoritiesNotAfter: Int?

  let handle: TLSContext.Handle
  /// The setting that names the CAs, for sentences about an untrusted server.
  let caSetting: String
  let tickets = SessionTickets()
  let serverChainEnd = Locked<Int?>(nil)
  private let lacksSystemStore: Locked<Bool>
  private let trustsSystem: Bool
  /// The context in place of this one; nil without one.
  private let successor = Locked<TLSClientContext?>(nil)

  /// Loads the CAs to trust instead of the system's, which ``loadSystemStore()`` loads. `caSetting` names them in errors.
  /// - Throws: `TLSError` with the cause `configuration`: a sentence that names the file and the fix.
  public init(
    authorities: PEMFile? = nil, caSetting: String = "catalog.caFile", limits: TLSLimits = TLSLimits()
  ) throws(TLSError) {
    let handle = unsafe try TLSContext.Handle(TLS_client_method())
    let lifetimes = if let authorities { try handle.trust(authorities, as: "a CA") } else { AuthorityLifetimes() }
    findings = authorities.map { lifetimes.findings($0.path) } ?? []
    authoritiesNotAfter = lifetimes.earliestEnd
    (self.caSetting, self.limits, trustsSystem) = (caSetting, limits, authorities == nil)
    lacksSystemStore = Locked(trustsSystem)
    unsafe ServerIdentity.verify(on: handle.pointer)
    unsafe SessionTickets.keep(on: handle.pointer)
    self.handle = handle
  }

  /// Trusts the authorities of another context from now on, in all new sessions of this one, and forgets the tickets of
  /// former sessions. Nothing changes with nil, or if both trust the system's authorities, which are not read again.
  public func replace(by newer: TLSClientContext?) {
    guard let newer, newer !== current, !(newer.trustsSystem && current.trustsSystem) else { return }
    successor.withLock { $0 = newer }
  }

  /// The context whose authorities and tickets new sessions use: this one, or what has replaced it.
  public var current: TLSClientContext { successor.withLock { $0 } ?? self }

  /// Reads the system's authorities for the first session, if they are trusted: 25 ms that every start would wait.
  func loadSystemStore() throws(TLSError) {
    let isLoaded = lacksSystemStore.withLock { lacksSystemStore in
      if lacksSystemStore { lacksSystemStore = unsafe SSL_CTX_set_default_verify_paths(handle.pointer) != 1 }
      return !lacksSystemStore
    }
    guard isLoaded else {
      throw .internalFailure("OpenSSL does not know where this system keeps its certification authorities.")
    }
  }

  /// The folders and the file in which OpenSSL looks for the system's certification authorities.
  package static var systemStore: [String] {
    let folders = unsafe path(X509_get_default_cert_dir_env(), X509_get_default_cert_dir())
    let file = unsafe path(X509_get_default_cert_file_env(), X509_get_default_cert_file())
    return folders.split(separator: ":").map(String.init) + [file]
  }

  private static func path(_ variable: UnsafePointer<CChar>, _ fallback: UnsafePointer<CChar>) -> String {
    unsafe String(cString: getenv(variable) ?? UnsafeMutablePointer(mutating: fallback))
  }

  /// The earliest expiry time in the chain, CA included, that the last full handshake verified, in seconds since 1970.
  public var serverChainNotAfter: Int? { serverChainEnd.withLock { $0 } }
}

/// The server that a client's session expects, and the result of verifying its certificate.
final class ServerIdentity {
  let host: String
  let context: TLSClientContext
  /// The reason why the certificate was refused, or nil if it was not.
  private(set) var refusal: String?

  init(_ host: String, of context: TLSClientContext) { (self.host, self.context) = (host, context) }

  /// Requests the host (RFC 6066 §3) and requires a certificate for it (RFC 9525).
  /// - Throws: `configuration` if `host` is neither a name nor an address.
  func expect(on ssl: OpaquePointer) throws(TLSError) {
    // The session keeps this object as long as it keeps the `SSL`.
    unsafe SSL_set_ex_data(ssl, Self.dataIndex, Unmanaged.passUnretained(self).toOpaque())
    if unsafe X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) != 1 {
      let flags = UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT)
      unsafe SSL_set_hostflags(ssl, flags)
      guard isName, unsafe SSL_set1_host(ssl, host) == 1, unsafe SSL_set_tlsext_host_name(ssl, host) == 1 else {
        throw .configuration("'\(host)' is neither a host name nor an IP address.")
      }
    }
    unsafe context.tickets.offer(host, on: ssl)
  }

  /// Whether a certificate could have this host as a DNS name; OpenSSL would accept any text.
  private var isName: Bool { (1...253).contains(host.utf8.count) && host.utf8.allSatisfy(\.isOfName) }

  /// Makes every session of `context` verify its server, and record the reason of a refusal here.
  static func verify(on context: OpaquePointer) {
    unsafe SSL_CTX_set_verify(context, SSL_VERIFY_PEER) { isGood, store in
      if isGood == 0, let store = unsafe store,
        let ssl = unsafe X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()),
        let server = unsafe ServerIdentity.of(OpaquePointer(ssl))
      {
        server.refusal = unsafe server.refusal(by: store)
      }
      return isGood
    }
  }

  static func of(_ ssl: OpaquePointer) -> ServerIdentity? {
    unsafe SSL_get_ex_data(ssl, dataIndex).map { unsafe Unmanaged.fromOpaque($0).takeUnretainedValue() }
  }

  /// The index of OpenSSL's `SSL_get_app_data`, which no library may use.
  private static let dataIndex: Int32 = 0

  /// Records how long the chain of an established session is valid. A resumed session has none.
  func noteChain(of ssl: OpaquePointer) {
    guard let chain = unsafe SSL_get0_verified_chain(ssl) else { return }
    let ends = unsafe (0..<OPENSSL_sk_num(chain)).compactMap { place in
      unsafe OPENSSL_sk_value(chain, place).flatMap { unsafe Certificate.notAfter(OpaquePointer($0)) }
    }
    if let earliest = ends.min() { context.serverChainEnd.withLock { $0 = earliest } }
  }

  /// Returns a sentence about OpenSSL's error for the client's operator, or nil if the general sentence fits.
  func sentence(for cause: TLSError.Cause, _ reason: Int32) -> String? {
    switch (cause, reason) {
    case (.certificateOfPeer, _): refusal
    case (.alertFromPeer, SSL_AD_REASON_OFFSET + SSL_AD_PROTOCOL_VERSION), (_, SSL_R_UNSUPPORTED_PROTOCOL):
      "\(host) does not speak TLS 1.2 or 1.3; older versions are not safe."
    case (.alertFromPeer, _): "\(host) ended the TLS session with the alert '\(Self.alert(reason))'."
    case (.violationByPeer, SSL_R_WRONG_VERSION_NUMBER): "\(host) does not speak TLS on this port."
    case (.violationByPeer, _): "\(host) broke the TLS protocol."
    default: nil
    }
  }

  /// Returns an alert's name (RFC 8446 §6) for OpenSSL's number.
  private static func alert(_ reason: Int32) -> String {
    unsafe SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET).map { unsafe String(cString: $0) } ?? "unknown"
  }

  /// Returns one sentence about the error of a verification in progress for the client's operator, with the action to take.
  private func refusal(by store: OpaquePointer) -> String {
    let error = unsafe X509_STORE_CTX_get_error(store)
    let general = "The certificate of \(host) is invalid: \(TLSError.verdict(Int(error)))."
    guard let certificate = unsafe X509_STORE_CTX_get_current_cert(store) else { return general }
    switch error {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      let day = unsafe Self.day(X509_get0_notAfter(certificate))
      return "The certificate of \(host) expired on \(day); renew it there, or correct the clock of this machine."
    case X509_V_ERR_CERT_NOT_YET_VALID:
      let day = unsafe Self.day(X509_get0_notBefore(certificate))
      return "The certificate of \(host) is not valid before \(day); this machine's clock may be wrong."
    case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH:
      let names = unsafe Self.alternativeNames(of: certificate)
      return "The server at \(host) has a certificate for \(names.isEmpty ? "no host" : names)."
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return "The certificate of \(host) is self-signed; to trust it, name it in \(context.caSetting)."
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
      X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      let issuer = unsafe Self.issuer(of: certificate)
      return "The issuer '\(issuer)' of the certificate of \(host) is not trusted; name its CA in "
        + "\(context.caSetting), or install the system's CAs (ca-certificates)."
    default: return general
    }
  }

  private static func day(_ time: UnsafePointer<ASN1_TIME>?) -> String {
    unsafe Certificate.seconds(time).map { String("\(CivilTime(secondsSinceEpoch: $0))".prefix(10)) } ?? "?"
  }

  private static func issuer(of certificate: OpaquePointer) -> String {
    var line = [CChar](repeating: 0, count: maximumText)
    // Escapes all bytes that are not plain ASCII, and truncates the text.
    unsafe X509_NAME_oneline(X509_get_issuer_name(certificate), &line, Int32(line.count))
    return String(decoding: line.prefix { $0 != 0 }.map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
  }

  private static func alternativeNames(of certificate: OpaquePointer) -> String {
    let place = unsafe X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1)
    guard place >= 0, let names = unsafe X509_get_ext(certificate, place) else { return "" }
    let bytes = unsafe Certificate.bytes(atMost: maximumText) { bio in unsafe X509V3_EXT_print(bio, names, 0, 0) }
    // An attacker may have chosen the names, so only plain characters remain.
    return String(decoding: bytes.map { (0x20..<0x7f).contains($0) ? $0 : UInt8(ascii: "?") }, as: UTF8.self)
  }

  private static let maximumText = 300
}

/// A store of the latest resumable session of each host (RFC 8446 §2.2, RFC 5077).
final class SessionTickets: Sendable {
  /// An owned reference to a session of OpenSSL.
  @safe private final class Reference: @unchecked Sendable {
    // Safe and Sendable: `pointer` keeps the reference until `deinit`, and OpenSSL counts references atomically.
    let pointer: OpaquePointer

    init(_ pointer: OpaquePointer) { unsafe self.pointer = unsafe pointer }

    deinit { unsafe SSL_SESSION_free(pointer) }
  }

  private let sessions = Locked<[String: Reference]>([:])

  /// Makes every session of `context` report the tickets that it receives. OpenSSL itself stores none.
  static func keep(on context: OpaquePointer) {
    unsafe SSL_CTX_set_session_cache_mode(context, Int(SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL))
    unsafe SSL_CTX_sess_set_new_cb(context) { ssl, session in
      guard let ssl = unsafe ssl, let session = unsafe session, let server = unsafe ServerIdentity.of(ssl),
        unsafe SSL_SESSION_is_resumable(session) == 1
      else { return 0 }
      unsafe server.context.tickets.replace(server.host, with: session)
      return 1  // this object owns the reference now
    }
  }

  /// Takes ownership of a reference to the session to resume for `host`, or removes the stored session if it is nil.
  func replace(_ host: String, with session: OpaquePointer?) {
    let new = unsafe session.map { unsafe Reference($0) }
    // The previous session is freed outside of the lock.
    _ = sessions.withLock { sessions in
      defer { sessions[host] = new }
      return sessions[host]
    }
  }

  /// Offers the stored session of `host`, if there is one.
  func offer(_ host: String, on ssl: OpaquePointer) {
    guard let session = sessions.withLock({ $0[host] }) else { return }
    // Takes its own reference. If it refuses the session, the handshake is a full one.
    unsafe SSL_set_session(ssl, session.pointer)
  }
}
