import COpenSSL
import Glibc
import Locks

/// The keys of a server's session tickets (RFC 5077 §4): one for new tickets, and further ones, which still decrypt.
///
/// Without key files the server replaces its key after a day, and keeps the previous one. An attacker that learns both
/// present keys can decrypt at most the resumption secrets of the tickets of two days. OpenSSL's own keys would stay for
/// the life of the process. The keys of files have no age: the operator replaces them on all replicas.
public final class TicketKeys: Sendable {
  /// The seconds for which a key encrypts new tickets.
  static let period = 86_400

  /// The maximum number of key files. 8: a rotation needs 3, and each ticket is compared with the name of each key.
  public static let mostFiles = 8

  let areFromFiles: Bool
  /// The problems of usable files for the operator: one sentence each.
  public let findings: [String]
  /// Returns the keys: the one for new tickets, then the further ones.
  private let present: @Sendable () -> [TicketKey]

  /// Creates the first key of this process. `now` returns the time in seconds since 1970.
  init(now: @escaping @Sendable () -> Int) throws(TLSError) {
    let pair = Locked(RotatingKeys(current: try TicketKey.random(), madeAt: now()))
    (areFromFiles, findings) = (false, [])
    present = {
      pair.withLock { pair in
        pair.rotate(now: now())
        return [pair.current] + (pair.previous.map { [$0.key] } ?? [])
      }
    }
  }

  /// Creates the keys of files, one at least: the first encrypts new tickets, and all decrypt.
  /// - Throws: `configuration`: a sentence that names two files whose keys have the same name.
  public init(_ files: [TicketKeyFile]) throws(TLSError) {
    for (place, file) in files.enumerated() {
      guard let earlier = files[..<place].first(where: { unsafe $0.key.isNamed(file.key.name) }) else { continue }
      throw TLSError(
        .configuration,
        "The keys in '\(earlier.path)' and '\(file.path)' have the same name, their first 16 bytes; name each file once, "
          + "and make each new one with '\(TicketKeyFile.command)'.")
    }
    let keys = files.map(\.key)
    (areFromFiles, findings) = (true, files.flatMap(\.findings))
    present = { keys }
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
    guard let key = present().first, unsafe RAND_bytes(vector, TicketKey.vectorBytes) == 1 else { return -1 }
    unsafe name.update(from: key.name, count: TicketKey.nameBytes)
    return unsafe EVP_EncryptInit_ex(cipher, EVP_aes_256_cbc(), nil, key.cipherKey, vector) == 1
      && key.authenticate(with: mac) ? 1 : -1
  }

  /// Returns 0 for a full handshake, 1 to accept the ticket, 2 to accept and replace it, or -1 if OpenSSL fails.
  private func decrypt(
    _ name: UnsafeMutablePointer<UInt8>, _ vector: UnsafeMutablePointer<UInt8>, _ cipher: OpaquePointer?,
    _ mac: OpaquePointer?, isTLS13: Bool
  ) -> Int32 {
    let keys = present()
    guard let key = keys.first(where: { unsafe $0.isNamed(name) }) else { return 0 }
    guard unsafe EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), nil, key.cipherKey, vector) == 1,
      unsafe key.authenticate(with: mac)
    else { return -1 }
    // A TLS 1.3 client uses a ticket once (RFC 8446 appendix C.4), so it gets a new ticket.
    return isTLS13 || key !== keys.first ? 2 : 1
  }
}

/// The keys of a process: the present one, and the one before.
private struct RotatingKeys {
  var current: TicketKey
  /// The creation time of the present key, in seconds since 1970.
  var madeAt: Int
  var previous: (key: TicketKey, madeAt: Int)?

  /// Replaces the present key after its period. Without random numbers the present key stays.
  mutating func rotate(now: Int) {
    let period = TicketKeys.period
    let age = now - madeAt
    guard age >= period || age < -period, let key = try? TicketKey.random() else {
      if let time = previous?.madeAt, now - time >= 2 * period { previous = nil }
      return
    }
    previous = (0..<2 * period).contains(age) ? (current, madeAt) : nil
    (current, madeAt) = (key, now)
  }
}

/// A ticket key, wiped when freed: its name in tickets, a key for HMAC-SHA-256 and one for AES-256-CBC, as in files.
@safe final class TicketKey: @unchecked Sendable {
  // Safe and Sendable: the memory lives from `init` to `deinit` and only `init` writes it.
  static let nameBytes = 16
  static let vectorBytes: Int32 = 16
  private static let secretBytes = 32
  static let bytes = nameBytes + 2 * secretBytes

  private let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: TicketKey.bytes, alignment: 1)

  /// Creates the key that `body` writes into the memory, which is zero before.
  init(_ body: (UnsafeMutableRawBufferPointer) throws(TLSError) -> Void) throws(TLSError) {
    unsafe memory.initializeMemory(as: UInt8.self, repeating: 0)
    unsafe try body(memory)
  }

  deinit {
    unsafe OPENSSL_cleanse(memory.baseAddress, memory.count)
    unsafe memory.deallocate()
  }

  /// Creates a random key. Throws `internalFailure` if there are no random numbers.
  static func random() throws(TLSError) -> TicketKey {
    unsafe try TicketKey { memory throws(TLSError) in
      let start = unsafe memory.bindMemory(to: UInt8.self).baseAddress
      guard unsafe RAND_priv_bytes(start, Int32(memory.count)) == 1 else {
        throw .internalFailure("OpenSSL has no random numbers for a key.")
      }
    }
  }

  private func part(at offset: Int) -> UnsafeMutablePointer<UInt8> {
    unsafe memory.baseAddress.unsafelyUnwrapped.assumingMemoryBound(to: UInt8.self) + offset
  }

  var name: UnsafeMutablePointer<UInt8> { unsafe part(at: 0) }
  private var macKey: UnsafeMutablePointer<UInt8> { unsafe part(at: Self.nameBytes) }
  var cipherKey: UnsafeMutablePointer<UInt8> { unsafe part(at: Self.nameBytes + Self.secretBytes) }

  func isNamed(_ name: UnsafeMutablePointer<UInt8>) -> Bool {
    unsafe CRYPTO_memcmp(name, self.name, Self.nameBytes) == 0
  }

  func authenticate(with mac: OpaquePointer?) -> Bool {
    unsafe copenssl_set_hmac_sha256(mac, macKey, Self.secretBytes) == 1
  }
}

/// A file with the key of session tickets that several servers share, in the format of nginx's `ssl_session_ticket_key`
/// for AES-256: the key's name in 16 bytes, and 32 random bytes each for HMAC-SHA-256 and AES-256-CBC.
public struct TicketKeyFile: Sendable {
  /// The command that makes such a file. It never contains the path of a wrong file, because it would overwrite it.
  static let command = "openssl rand -out ticket.key \(TicketKey.bytes)"

  /// The length of nginx's files for AES-128.
  private static let olderBytes = 48

  let path: String
  let key: TicketKey
  /// The problems of the usable file for the operator: one sentence each.
  let findings: [String]

  /// Reads the file directly into the memory of its key.
  /// - Throws: `TLSError` with the cause `configuration`: a sentence that names the file and the fix.
  public init(_ path: String) throws(TLSError) {
    let file: OpenedFile
    do throws(PEMFile.Failure) { file = try OpenedFile(path) } catch { throw error.of(path) }
    try Self.check(file.status, path)
    findings = try file.access.findings("ticket key file")
    key = unsafe try TicketKey { memory throws(TLSError) in
      do throws(PEMFile.Failure) { unsafe try file.fill(memory) } catch { throw error.of(path) }
    }
    self.path = path
  }

  private static func check(_ status: stat, _ path: String) throws(TLSError) {
    guard status.st_mode & S_IFMT == S_IFREG else {
      throw TLSError(.configuration, "'\(path)' is not a regular file; name the file of the ticket key itself.")
    }
    guard status.st_size != TicketKey.bytes else { return }
    let older = status.st_size == olderBytes ? ", as older versions of nginx use them with AES-128" : ""
    throw TLSError(
      .configuration,
      "'\(path)' has \(status.st_size) bytes\(older), and a ticket key has \(TicketKey.bytes); make one with "
        + "'\(command)'.")
  }
}
