import COpenSSL
import Locks

/// The keys of a server's session tickets (RFC 5077 §4): one for new tickets, and the previous one, which still
/// decrypts the tickets of its period.
///
/// Each key is replaced after a day. An attacker that learns both present keys can decrypt at most the resumption
/// secrets of the tickets of two days. OpenSSL's own keys would stay for the life of the process.
final class TicketKeys: Sendable {
  /// The seconds for which a key encrypts new tickets.
  static let period = 86_400

  fileprivate struct Pair {
    var current: TicketKey
    var previous: TicketKey?
  }

  private let pair: Locked<Pair>
  private let now: @Sendable () -> Int

  /// Creates the first key.
  /// - Parameter now: Returns the time in seconds since 1970.
  /// - Throws: `internalFailure` if there are no random numbers.
  init(now: @escaping @Sendable () -> Int) throws(TLSError) {
    guard let key = TicketKey(madeAt: now()) else { throw .internalFailure("OpenSSL has no random numbers for a key.") }
    pair = Locked(Pair(current: key))
    self.now = now
  }

  /// Makes the sessions of `context` use these keys. The context must not outlive this object.
  func use(on context: OpaquePointer) throws(TLSError) {
    let opaque = unsafe Unmanaged.passUnretained(self).toOpaque()
    guard unsafe SSL_CTX_set_ex_data(context, Self.dataIndex, opaque) == 1,
      unsafe SSL_CTX_set_tlsext_ticket_key_evp_cb(
        context,
        { ssl, name, vector, cipher, mac, isEncrypting in
          guard let ssl = unsafe ssl, let name = unsafe name, let vector = unsafe vector,
            let data = unsafe SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), TicketKeys.dataIndex)
          else { return -1 }
          let keys = unsafe Unmanaged<TicketKeys>.fromOpaque(data).takeUnretainedValue()
          return isEncrypting == 1
            ? unsafe keys.encrypt(name, vector, cipher, mac)
            : unsafe keys.decrypt(name, vector, cipher, mac, isTLS13: SSL_version(ssl) >= TLS1_3_VERSION)
        }) == 1
    else { throw .internalFailure("OpenSSL refuses the keys for session tickets.") }
  }

  /// The index of OpenSSL's `SSL_CTX_get_app_data`, which no library may use.
  private static let dataIndex: Int32 = 0

  /// Returns 1 if a ticket may be issued, or -1 if OpenSSL fails.
  private func encrypt(
    _ name: UnsafeMutablePointer<UInt8>, _ vector: UnsafeMutablePointer<UInt8>, _ cipher: OpaquePointer?,
    _ mac: OpaquePointer?
  ) -> Int32 {
    let key = rotated().current
    guard unsafe RAND_bytes(vector, TicketKey.vectorBytes) == 1 else { return -1 }
    unsafe name.update(from: key.name, count: TicketKey.nameBytes)
    return unsafe EVP_EncryptInit_ex(cipher, EVP_aes_256_cbc(), nil, key.cipherKey, vector) == 1
      && key.authenticate(with: mac) ? 1 : -1
  }

  /// Returns 0 for a full handshake because the key is unknown or too old, 1 to accept the ticket, 2 to accept and
  /// replace it, or -1 if OpenSSL fails.
  private func decrypt(
    _ name: UnsafeMutablePointer<UInt8>, _ vector: UnsafeMutablePointer<UInt8>, _ cipher: OpaquePointer?,
    _ mac: OpaquePointer?, isTLS13: Bool
  ) -> Int32 {
    let pair = rotated()
    guard let key = [pair.current, pair.previous].compactMap({ $0 }).first(where: { unsafe $0.isNamed(name) }) else {
      return 0
    }
    guard unsafe EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), nil, key.cipherKey, vector) == 1,
      unsafe key.authenticate(with: mac)
    else { return -1 }
    // A TLS 1.3 client uses a ticket once (RFC 8446 appendix C.4), so it gets a new ticket.
    return isTLS13 || key !== pair.current ? 2 : 1
  }

  /// Returns the present keys, after rotation if it is due.
  private func rotated() -> Pair {
    pair.withLock { pair in
      pair.rotate(now: now())
      return pair
    }
  }
}

extension TicketKeys.Pair {
  /// Replaces the present key after its period. Without random numbers the present key stays.
  fileprivate mutating func rotate(now: Int) {
    let period = TicketKeys.period
    let age = now - current.madeAt
    guard age >= period || age < -period, let key = TicketKey(madeAt: now) else {
      if let time = previous?.madeAt, now - time >= 2 * period { previous = nil }
      return
    }
    previous = (0..<2 * period).contains(age) ? current : nil
    current = key
  }
}

/// A ticket key: its name in tickets, a key for AES-256-CBC and a key for HMAC-SHA-256. Wiped when freed.
@safe private final class TicketKey: @unchecked Sendable {
  // Safe and Sendable: the memory lives from `init` to `deinit` and only `init` writes it.
  static let nameBytes = 16
  static let vectorBytes: Int32 = 16
  private static let secretBytes = 32

  /// The creation time in seconds since 1970.
  let madeAt: Int
  private let bytes = UnsafeMutablePointer<UInt8>.allocate(capacity: TicketKey.nameBytes + 2 * TicketKey.secretBytes)

  /// Creates a random key. Returns nil if there are no random numbers.
  init?(madeAt: Int) {
    self.madeAt = madeAt
    let count = Self.nameBytes + 2 * Self.secretBytes
    unsafe bytes.initialize(repeating: 0, count: count)
    guard unsafe RAND_priv_bytes(bytes, Int32(count)) == 1 else { return nil }
  }

  deinit {
    unsafe OPENSSL_cleanse(bytes, Self.nameBytes + 2 * Self.secretBytes)
    unsafe bytes.deallocate()
  }

  var name: UnsafeMutablePointer<UInt8> { unsafe bytes }
  var cipherKey: UnsafeMutablePointer<UInt8> { unsafe bytes + Self.nameBytes }

  func isNamed(_ name: UnsafeMutablePointer<UInt8>) -> Bool {
    unsafe CRYPTO_memcmp(name, bytes, Self.nameBytes) == 0
  }

  func authenticate(with mac: OpaquePointer?) -> Bool {
    unsafe copenssl_set_hmac_sha256(mac, bytes + Self.nameBytes + Self.secretBytes, Self.secretBytes) == 1
  }
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
      unsafe server.keepTicket(session)
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
