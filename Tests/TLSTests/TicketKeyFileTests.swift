import COpenSSL
import Locks
import TestSupport
import Testing

@testable import TLS

@Suite("The files of ticket keys")
struct TicketKeyFileTests {
  private let files: Files

  init() throws { files = try Files() }

  /// Writes 80 bytes: the first 16 are `name`, the others differ for each `secret`.
  private func write(_ file: String, name: UInt8, secret: UInt8, mode: UInt32 = 0o600) throws -> String {
    try files.directory.write(Self.bytes(name, secret), to: file, mode: mode)
  }

  private static func bytes(_ name: UInt8, _ secret: UInt8) -> [UInt8] {
    Array(repeating: name, count: 16) + (0..<64).map { secret &+ $0 }
  }

  private func context(
    _ paths: [String], resuming previous: TLSContext? = nil, now: @escaping @Sendable () -> Int = TLSContext.systemTime
  ) throws -> TLSContext {
    try TLSContext(
      certificate: PEMFile(reading: files.certificateFile), key: PEMFile(reading: files.keyFile),
      resumingTicketsOf: previous,
      sharedTicketKeys: paths.isEmpty ? nil : TicketKeys(paths.map { try TicketKeyFile($0) }), now: now)
  }

  @Test("resume sessions of every server with the same file, and of no other", arguments: Version.allCases)
  func sameFile(version: Version) throws {
    let file = try write("a.key", name: 1, secret: 1)
    let session = try Tickets.session(from: context([file]), version)
    #expect(try Tickets.resumes(session, with: context([file]), version))
    #expect(try !Tickets.resumes(session, with: context([write("b.key", name: 2, secret: 2)]), version))
    #expect(try !Tickets.resumes(session, with: context([write("c.key", name: 1, secret: 3)]), version))
    #expect(try !Tickets.resumes(session, with: context([]), version))
  }

  @Test("encrypt with the first key and decrypt with all", arguments: Version.allCases)
  func order(version: Version) throws {
    let (old, new) = (try write("old.key", name: 1, secret: 1), try write("new.key", name: 2, secret: 2))
    let session = try Tickets.session(from: context([old, new]), version)
    #expect(try Tickets.resumes(session, with: context([new, old]), version))
    #expect(try Tickets.resumes(session, with: context([old]), version))
    #expect(try !Tickets.resumes(session, with: context([new]), version))
  }

  @Test("renew a ticket of TLS 1.2 only if its key is not the first")
  func renewal() throws {
    let (old, new) = (try write("old.key", name: 1, secret: 1), try write("new.key", name: 2, secret: 2))
    let session = try Tickets.session(from: context([old]), .tls12)
    for (paths, renewed) in [([old, new], 0), ([new, old], 1)] {
      var settings = Version.tls12.settings
      settings.session = session
      let (client, server) = (try TLSClient(settings), try Server(context(paths)))
      try server.shakeHands(with: client)
      #expect(server.session.wasResumed)
      #expect(client.ticketCount == renewed)
      let next = try #require(client.session)
      #expect(try Tickets.resumes(next, with: context([new]), .tls12) == (renewed == 1))
    }
  }

  @Test("hold keys that do not age", arguments: Version.allCases)
  func age(version: Version) throws {
    let time = Locked(1_795_000_000)
    let file = try write("a.key", name: 1, secret: 1)
    let context = try context([file], now: { time.withLock { $0 } })
    let session = try Tickets.session(from: context, version)
    time.withLock { $0 += 10 * TicketKeys.period }
    #expect(try Tickets.resumes(session, with: context, version))
  }

  @Test("replace the process's keys at a reload, and the other way round", arguments: Version.allCases)
  func reload(version: Version) throws {
    let file = try write("a.key", name: 1, secret: 1)
    let own = try context([])
    let ofOwn = try Tickets.session(from: own, version)
    let shared = try context([file], resuming: own)
    #expect(try !Tickets.resumes(ofOwn, with: shared, version))
    let ofFile = try Tickets.session(from: shared, version)
    #expect(try Tickets.resumes(ofFile, with: context([file], resuming: shared), version))
    let ownAgain = try context([], resuming: shared)
    #expect(try !Tickets.resumes(ofFile, with: ownAgain, version))
    #expect(try Tickets.resumes(Tickets.session(from: ownAgain, version), with: ownAgain, version))
  }

  @Test("have nginx's order: name, key of the HMAC, key of the cipher")
  func layout() throws {
    let key = Self.bytes(1, 100)
    let context = try context([write("a.key", name: 1, secret: 100)])
    let session = try Tickets.session(from: context, .tls12)
    let ticket = Self.ticket(of: session)
    // RFC 5077 §4: name, initialization vector, ciphertext, MAC.
    try #require(ticket.count > 16 + 16 + 32)
    let (signed, mac) = (Array(ticket.dropLast(32)), Array(ticket.suffix(32)))
    #expect(Array(ticket.prefix(16)) == Array(key[..<16]))
    var code = [UInt8](repeating: 0, count: 32)
    _ = unsafe HMAC(EVP_sha256(), Array(key[16..<48]), 32, signed, signed.count, &code, nil)
    #expect(code == mac)
    let cipher = unsafe EVP_CIPHER_CTX_new()
    defer { unsafe EVP_CIPHER_CTX_free(cipher) }
    let (vector, encrypted) = (Array(signed[16..<32]), Array(signed[32...]))
    var (plain, count, rest) = ([UInt8](repeating: 0, count: encrypted.count + 16), Int32(0), Int32(0))
    #expect(unsafe EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), nil, Array(key[48...]), vector) == 1)
    #expect(unsafe EVP_DecryptUpdate(cipher, &plain, &count, encrypted, Int32(encrypted.count)) == 1)
    #expect(unsafe EVP_DecryptFinal_ex(cipher, &plain[Int(count)], &rest) == 1, "the padding of another key")
    #expect(plain.first == 0x30, "a session in ASN.1")
  }

  private static func ticket(of session: TLSClient.Session) -> [UInt8] {
    var (start, count): (UnsafePointer<UInt8>?, Int) = (nil, 0)
    unsafe SSL_SESSION_get0_ticket(session.pointer, &start, &count)
    return unsafe Array(UnsafeBufferPointer(start: start, count: count))
  }

  @Test(
    "of another length are refused with the command that makes one",
    arguments: [
      (0, "has 0 bytes, and a ticket key has 80;"), (79, "has 79 bytes, and a ticket key has 80;"),
      (81, "has 81 bytes, and a ticket key has 80;"),
      (48, "has 48 bytes, as older versions of nginx use them with AES-128, and a ticket key has 80;"),
    ])
  func length(_ count: Int, _ problem: String) throws {
    let file = try files.directory.write([UInt8](repeating: 7, count: count), to: "a.key")
    let error = #expect(throws: TLSError.self) { try TicketKeyFile(file) }
    #expect(error?.cause == .configuration)
    #expect(error?.description == "'\(file)' \(problem) make one with 'openssl rand -out ticket.key 80'.")
  }

  @Test("that cannot be read are refused by name")
  func unreadable() throws {
    let directory = files.directory.path
    var error = #expect(throws: TLSError.self) { try TicketKeyFile("\(directory)/missing") }
    #expect(error?.message.hasPrefix("'\(directory)/missing' cannot be read: No such file or directory.") == true)
    for path in [directory, "/dev/null"] {
      error = #expect(throws: TLSError.self) { try TicketKeyFile(path) }
      #expect(error?.message == "'\(path)' is not a regular file; name the file of the ticket key itself.")
    }
  }

  @Test("with the same name are refused")
  func duplicates() throws {
    let paths = [
      try write("a.key", name: 1, secret: 1), try write("b.key", name: 2, secret: 1),
      try write("c.key", name: 1, secret: 9),
    ]
    let error = #expect(throws: TLSError.self) { try context(paths) }
    #expect(
      error?.description
        == "The keys in '\(paths[0])' and '\(paths[2])' have the same name, their first 16 bytes; name each file once, "
        + "and make each new one with 'openssl rand -out ticket.key 80'.")
    #expect(throws: TLSError.self) { try context([paths[0], paths[0]]) }
    #expect(throws: Never.self) { try context([paths[0], paths[1]]) }
  }

  @Test("that others can write are refused, and those that everybody can read are reported")
  func access() throws {
    let readable = try write("a.key", name: 1, secret: 1, mode: 0o644)
    let finding = "All users of this machine can read the ticket key file '\(readable)'; run 'chmod 600 \(readable)'."
    #expect(try TicketKeys([TicketKeyFile(readable)]).findings == [finding])
    #expect(try TicketKeys([TicketKeyFile(write("b.key", name: 1, secret: 1, mode: 0o640))]).findings.isEmpty)
    for mode: UInt32 in [0o620, 0o602] {
      let file = try write("c.key", name: 1, secret: 1, mode: mode)
      let error = #expect(throws: TLSError.self) { try TicketKeyFile(file) }
      #expect(error?.message.contains("can write to the ticket key file '\(file)'; run 'chmod 600") == true)
    }
  }
}
