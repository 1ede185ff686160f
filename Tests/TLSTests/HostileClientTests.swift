import COpenSSL
import TLS
import TestSupport
import Testing

@Suite("A hostile client")
struct HostileClientTests {
  @Test(
    "that sends plain HTTP is recognized, and gets no bytes",
    arguments: ["GET / HTTP/1.1\r\n\r\n", "POST /token HTTP/1.1\r\n\r\n", "HEAD / HTTP/1.1\r\n\r\n"])
  func plainHTTP(request: String) throws {
    let server = try Server(Files().context())
    let error = #expect(throws: TLSError.self) { try server.receive(request.utf8) }
    #expect(error?.cause == .plaintextHTTP)
    #expect(server.takeOutgoing().isEmpty)
  }

  @Test("that sends plain HTTP slowly is recognized at the fifth byte, the earliest possible")
  func drippedHTTP() throws {
    let server = try Server(Files().context())
    for byte in "GET ".utf8 { try server.receive([byte]) }
    let error = #expect(throws: TLSError.self) { try server.receive("/".utf8) }
    #expect(error?.cause == .plaintextHTTP)
    #expect(server.takeOutgoing().isEmpty)
  }

  @Test(
    "that sends part of a record costs only the bytes it sent, not OpenSSL's buffers",
    arguments: [
      ("one byte", [22]),
      ("one byte that is not TLS", [71]),
      ("a long record", [22, 3, 1, 0x3f, 255, 1]),
      ("a record of a type that is none", [5, 3, 1, 0x3f, 255, 1]),
      ("an SSLv2 ClientHello", [0x80, 0x2e, 1, 3, 3, 0]),
    ] as [(String, [UInt8])])
  func halfRecord(label: String, bytes: [UInt8]) throws {
    let atOnce = try Server(Files().context())
    try atOnce.receive(bytes)
    #expect(atOnce.session.heldBytes == bytes.count, "\(label)")
    let dripped = try Server(Files().context())
    for byte in bytes { try dripped.receive([byte]) }
    #expect(dripped.session.heldBytes == bytes.count, "\(label)")
  }

  @Test("that announces a record of any length is refused immediately or costs only its bytes")
  func announcedLengths() throws {
    let context = try Files().context()
    for length in 16_380..<16_900 {
      let server = try Server(context)
      let header = [22, 3, 1, UInt8(length >> 8), UInt8(length & 255)]
      let isRefused = (try? server.receive(header)) == nil
      #expect(isRefused || server.session.heldBytes == header.count, "\(length)")
      #expect(isRefused == (length > 16_704), "\(length)")
      #expect(server.takeOutgoing().isEmpty == !isRefused, "\(length)")
    }
  }

  @Test("that sends a large handshake slowly is refused at the limit, within the record")
  func drippedHandshake() throws {
    var limits = TLSLimits()
    limits.handshakeBytes = 100
    let server = try Server(Files().context(limits: limits))
    for byte in [22, 3, 1, 0x3f, 255] + [UInt8](repeating: 1, count: 95) { try server.receive([byte]) }
    let error = #expect(throws: TLSError.self) { try server.receive([1]) }
    #expect(error?.cause == .limitExceeded)
    #expect(server.takeOutgoing() == [21, 3, 3, 0, 2, 2, UInt8(SSL_AD_ILLEGAL_PARAMETER)])
  }

  @Test("that never finishes its handshake gets an alert, unencrypted before the first encryption")
  func expiredBeforeHello() throws {
    for bytes in [[], [22, 3, 1, 1]] as [[UInt8]] {
      let server = try Server(Files().context())
      try server.receive(bytes)
      #expect((server.session.unfinishedHandshake != nil) == !bytes.isEmpty)
      #expect(server.expireHandshake().failure == .timedOut)
      #expect(server.takeOutgoing() == [21, 3, 3, 0, 2, 2, UInt8(SSL_AD_USER_CANCELLED)])
      #expect(throws: TLSError.self) { try server.receive([3]) }
      #expect(server.takeOutgoing().isEmpty)
    }
  }

  @Test(
    "that stops after the server's part of the handshake gets an alert that it can decrypt", arguments: Version.allCases
  )
  func expiredAfterHello(version: Version) throws {
    let server = try Server(Files().context())
    let client = try TLSClient(version.settings)
    client.receive([])
    try server.receive(client.takeOutgoing())
    client.receive(server.takeOutgoing())
    #expect(server.expireHandshake().failure == .timedOut)
    client.receive(server.takeOutgoing())
    _ = client.read()
    #expect(client.failure == SSL_AD_REASON_OFFSET + SSL_AD_RECORD_OVERFLOW)
  }

  @Test("gets the same error however often it continues")
  func staysFailed() throws {
    let server = try Server(Files().context())
    let first = #expect(throws: TLSError.self) { try server.receive([22, 3, 1, 0, 4, 9, 9, 9, 9]) }
    #expect(server.takeOutgoing().first == 21)
    let second = #expect(throws: TLSError.self) { try server.receive([1]) }
    #expect(first == second)
    #expect(server.takeOutgoing().isEmpty)
    #expect(server.close().isEmpty)
  }

  @Test("that damages a record gets bad_record_mac", arguments: Version.allCases)
  func damagedRecord(version: Version) throws {
    let client = try TLSClient(version.settings)
    let server = try Server(Files().context())
    try server.shakeHands(with: client)
    _ = server.takeOutgoing()
    var record = client.write([1, 2, 3])
    record[record.count - 1] ^= 1
    let error = #expect(throws: TLSError.self) { try server.receive(record) }
    #expect(error?.cause == .violationByPeer)
    client.receive(server.takeOutgoing())
    _ = client.read()
    #expect(client.failure == 1000 + SSL_AD_BAD_RECORD_MAC)
  }

  @Test(
    "that sends anything but a handshake is refused with an alert",
    arguments: [
      ("application data first", [23, 3, 3, 0, 1, 0]),
      ("a record longer than the protocol allows", [22, 3, 1, 255, 255]),
      ("a Finished first", [22, 3, 1, 0, 4, 20, 0, 0, 0]),
      ("a ClientHello of nothing", [22, 3, 1, 0, 4, 1, 0, 0, 0]),
      ("empty records without end", Array([[UInt8]](repeating: [22, 3, 1, 0, 0], count: 64).joined())),
    ] as [(String, [UInt8])])
  func garbage(label: String, bytes: [UInt8]) throws {
    let server = try Server(Files().context())
    let error = #expect(throws: TLSError.self, "\(label)") { try server.receive(bytes) }
    #expect(error?.cause == .violationByPeer)
    #expect(server.takeOutgoing().starts(with: [21, 3]))
  }

  @Test(
    "is refused as soon as it announces a longer ClientHello than a server waits for, however that is split",
    arguments: [
      ("the limit", [1, 0, 0x40, 0], false), ("one byte more", [1, 0, 0x40, 1], true),
      ("128 KiB", [1, 1, 255, 255], true), ("16 MiB", [1, 255, 255, 255], true),
    ] as [(String, [UInt8], Bool)])
  func longClientHello(label: String, header: [UInt8], isRefused: Bool) throws {
    let inOne = [22, 3, 1, 0, 4] + header
    let byByte = header.flatMap { byte -> [UInt8] in [22, 3, 1, 0, 1, byte] }
    for flight in [inOne, byByte] {
      let server = try Server(Files().context())
      guard isRefused else {
        try server.receive(flight)
        continue
      }
      let error = #expect(throws: TLSError.self, "\(label)") { try server.receive(flight) }
      #expect(error?.cause == .limitExceeded)
      #expect(server.takeOutgoing() == [21, 3, 3, 0, 2, 2, UInt8(SSL_AD_ILLEGAL_PARAMETER)])
    }
  }

  @Test("is refused if its second ClientHello, after a request to choose another group, is too long")
  func longSecondClientHello() throws {
    let server = try Server(Files().context())
    var settings = Version.tls13.settings
    // The client's first share is for a group that the server does not take.
    settings.groups = "P-521:P-256"
    let client = try TLSClient(settings)
    client.receive([])
    try server.receive(client.takeOutgoing())
    #expect(!server.takeOutgoing().isEmpty, "a HelloRetryRequest")
    let error = #expect(throws: TLSError.self) { try server.receive([22, 3, 3, 0, 5, 1, 1, 0, 0, 0]) }
    #expect(error?.cause == .limitExceeded)
  }

  @Test("cannot send a handshake larger than the limit")
  func endlessHandshake() throws {
    var limits = TLSLimits()
    limits.clientHelloBytes = 0xff_ffff
    let server = try Server(Files().context(limits: limits))
    // A ClientHello that announces 128 KiB, which OpenSSL would wait for, in records of 16 KiB.
    var flight: [UInt8] = [22, 3, 1, 0x40, 0, 1, 1, 255, 255] + [UInt8](repeating: 0, count: 16_380)
    for _ in 0..<3 {
      try server.receive(flight)
      flight = [22, 3, 1, 0x40, 0] + [UInt8](repeating: 0, count: 16_384)
    }
    let error = #expect(throws: TLSError.self) { try server.receive(flight) }
    #expect(error?.cause == .limitExceeded)
  }

  @Test("cannot send endless key updates, and a byte of data pays for none", arguments: [0, 1])
  func keyUpdates(data: Int) throws {
    let client = try TLSClient(Version.tls13.settings)
    let server = try Server(Files().context())
    try server.shakeHands(with: client)
    for _ in 0..<32 {
      try server.receive(keyUpdates(1, from: client))
      if data > 0 { try server.receive(client.write([UInt8](repeating: 1, count: data))) }
    }
    let error = #expect(throws: TLSError.self) { try server.receive(keyUpdates(1, from: client)) }
    #expect(error?.cause == .limitExceeded)
  }

  @Test("may send a key update for every 64 KiB that it sends or receives", arguments: [true, false])
  func keyUpdatesWithData(isClients: Bool) throws {
    let client = try TLSClient(Version.tls13.settings)
    let server = try Server(Files().context())
    try server.shakeHands(with: client)
    let data = [UInt8](repeating: 1, count: 65_536)
    try server.receive(keyUpdates(32, from: client))
    for _ in 0..<40 {
      if isClients { try server.receive(client.write(data)) } else { _ = try server.send(data) }
      try server.receive(keyUpdates(1, from: client))
    }
    #expect(server.session.isEstablished)
  }

  @Test("cannot renegotiate")
  func renegotiation() throws {
    let client = try TLSClient(Version.tls12.settings)
    let server = try Server(Files().context())
    try server.shakeHands(with: client)
    try server.receive(attemptToRenegotiate(client))
    #expect(server.session.isEstablished)
    client.receive(server.takeOutgoing())
    #expect(client.failure == SSL_R_NO_RENEGOTIATION)
  }

  @Test("cannot make endless attempts to renegotiate")
  func renegotiationsAreCounted() throws {
    var limits = TLSLimits()
    limits.controlMessages = 0
    let client = try TLSClient(Version.tls12.settings)
    let server = try Server(Files().context(limits: limits))
    try server.shakeHands(with: client)
    let error = try #require(throws: TLSError.self) { try server.receive(attemptToRenegotiate(client)) }
    #expect(error.cause == .limitExceeded)
  }

  @Test("an error of OpenSSL on the same thread does not affect another session")
  func errorsStayApart() throws {
    let context = try Files().context()
    let (client, server) = try (TLSClient(), Server(context))
    try server.shakeHands(with: client)
    #expect(unsafe BIO_new_file("/does/not/exist", "r") == nil)
    #expect(ERR_peek_error() != 0)
    try server.receive(client.write([1]).prefix(3))
    #expect(server.session.isEstablished)
  }

  private func attemptToRenegotiate(_ client: TLSClient) -> [UInt8] {
    unsafe SSL_renegotiate(client.ssl)
    client.receive([])
    return client.takeOutgoing()
  }

  private func keyUpdates(_ count: Int, from client: TLSClient) -> [UInt8] {
    (0..<count).flatMap { _ in
      unsafe SSL_key_update(client.ssl, SSL_KEY_UPDATE_NOT_REQUESTED)
      client.receive([])
      return client.takeOutgoing()
    }
  }
}
