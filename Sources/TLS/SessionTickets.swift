import COpenSSL
import Locks

/// The latest session of each host that may be resumed (RFC 8446 §2.2, RFC 5077).
@safe final class SessionTickets: @unchecked Sendable {
  // Safe and Sendable: `sessions` is touched only under `lock`, and OpenSSL counts references to a session atomically.
  // Each pointer here holds one.
  private let lock = Mutex()
  private var sessions: [String: OpaquePointer] = unsafe [:]

  deinit {
    unsafe sessions.values.forEach { unsafe SSL_SESSION_free($0) }
  }

  /// Has every session of `context` report the tickets that it gets. OpenSSL itself keeps none.
  static func keep(on context: OpaquePointer) {
    unsafe SSL_CTX_set_session_cache_mode(context, Int(SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL))
    unsafe SSL_CTX_sess_set_new_cb(context) { ssl, session in
      guard let ssl = unsafe ssl, let session = unsafe session, let server = unsafe ServerIdentity.of(ssl),
        unsafe SSL_SESSION_is_resumable(session) == 1
      else { return 0 }
      unsafe server.keepTicket(session)
      return 1  // the reference is ours now
    }
  }

  /// Takes over a reference to the session that `host` is to be resumed with from now on, or forgets what there is.
  func replace(_ host: String, with session: OpaquePointer?) {
    let old = unsafe lock.withLock {
      defer { unsafe sessions[host] = unsafe session }
      return unsafe sessions[host]
    }
    if let old = unsafe old { unsafe SSL_SESSION_free(old) }
  }

  /// Offers `host` what there is of it.
  func offer(_ host: String, on ssl: OpaquePointer) {
    lock.withLock {
      guard let session = unsafe sessions[host] else { return }
      // Takes a reference of its own. If it refuses, the handshake is a full one.
      unsafe SSL_set_session(ssl, session)
    }
  }
}
