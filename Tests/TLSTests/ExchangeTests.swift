import COpenSSL
import TLS
import TestSupport
import Testing

@Suite("An exchange with a client")
struct ExchangeTests {
  private let request = Array("GET /token HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)

  @Test("both versions carry bytes both ways, with each kind of key", arguments: Version.allCases)
  func carriesBytes(version: Version) throws {
    for algorithm: KeyPair.Algorithm in [.p256, .p384, .rsa(2048)] {
      let client = try TLSClient(version.settings)
      let server = try Server(Files(algorithm).context())
      try server.shakeHands(with: client)
      #expect(server.session.isEstablished)
      #expect(client.isEstablished)
      #expect(server.session.version == version.testDescription)
      try server.receive(client.write(request))
      #expect(server.plaintext == request)
      client.receive(try server.send(Array("response".utf8)))
      #expect(client.read() == Array("response".utf8))
    }
  }

  @Test("bytes that arrive one by one give the same plaintext", arguments: Version.allCases)
  func byteByByte(version: Version) throws {
    let client = try TLSClient(version.settings)
    let server = try Server(Files().context())
    try shakeHands(client, server) { _ in 1 }
    let ciphertext = client.write(request) + client.write(request)
    for byte in ciphertext { try server.receive([byte]) }
    #expect(server.plaintext == request + request)
    #expect(server.session.heldBytes == 0, "an idle session holds nothing")
  }

  @Test("bytes that are split at random give the same plaintext", arguments: Version.allCases)
  func randomCuts(version: Version) throws {
    let context = try Files().context()
    for seed in 0..<50 {
      var random = SplitMix(seed: UInt64(seed))
      let client = try TLSClient(version.settings)
      let server = try Server(context)
      try shakeHands(client, server) { Int.random(in: 1...$0, using: &random) }
      let sent = (0..<Int.random(in: 1...60_000, using: &random)).map { UInt8(truncatingIfNeeded: $0) }
      try feed(client.write(sent), to: server) { Int.random(in: 1...min($0, 9000), using: &random) }
      #expect(server.plaintext == sent, "seed \(seed)")
    }
  }

  @Test("the first request may arrive together with the end of the handshake", arguments: Version.allCases)
  func requestInTheLastFlight(version: Version) throws {
    let client = try TLSClient(version.settings)
    let server = try Server(Files().context())
    client.receive([])
    while !client.isEstablished, version == .tls13 || !server.session.isEstablished {
      try server.receive(client.takeOutgoing())
      client.receive(server.takeOutgoing())
    }
    let lastFlight = client.takeOutgoing()
    #expect(try server.receive(lastFlight + client.write(request)) == .established)
    #expect(server.plaintext == request)
  }

  @Test("a mebibyte arrives complete, both ways", arguments: Version.allCases)
  func largePayload(version: Version) throws {
    let client = try TLSClient(version.settings)
    let server = try Server(Files().context())
    try server.shakeHands(with: client)
    let payload = (0..<1 << 20).map { UInt8(truncatingIfNeeded: $0 ^ ($0 >> 8)) }
    try server.receive(client.write(payload))
    #expect(server.plaintext == payload)
    client.receive(try server.send(payload))
    #expect(client.read() == payload)
  }

  @Test("a client's key update is answered, and later bytes are decrypted")
  func keyUpdate() throws {
    let client = try TLSClient(Version.tls13.settings)
    let server = try Server(Files().context())
    try server.shakeHands(with: client)
    unsafe SSL_key_update(client.ssl, SSL_KEY_UPDATE_REQUESTED)
    try server.receive(client.write(request))
    client.receive(server.takeOutgoing() + (try server.send(request)))
    #expect(client.read() == request)
    #expect(server.plaintext == request)
  }

  @Test("the session appends to existing bytes and uses the capacity of the array")
  func appends() throws {
    let client = try TLSClient()
    let server = try TLSSession(Files().context())
    var (plaintext, outgoing): ([UInt8], [UInt8]) = ([], [])
    client.receive([])
    _ = try server.receive(client.takeOutgoing().span, plaintext: &plaintext, outgoing: &outgoing)
    client.receive(outgoing)
    plaintext = Array("before".utf8)
    plaintext.reserveCapacity(4096)
    outgoing = [1, 2, 3]
    let capacity = plaintext.capacity
    let ciphertext = client.takeOutgoing() + client.write(request)
    _ = try server.receive(ciphertext.span, plaintext: &plaintext, outgoing: &outgoing)
    #expect(plaintext == Array("before".utf8) + request)
    #expect(plaintext.capacity == capacity)
    #expect(outgoing.starts(with: [1, 2, 3]))
  }

  private func shakeHands(_ client: TLSClient, _ server: Server, cut: (Int) -> Int) throws {
    client.receive([])
    while true {
      let flight = client.takeOutgoing()
      if flight.isEmpty { return }
      try feed(flight, to: server, cut: cut)
      client.receive(server.takeOutgoing())
    }
  }

  private func feed(_ bytes: [UInt8], to server: Server, cut: (Int) -> Int) throws {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = cut(rest.count)
      try server.receive(rest.prefix(count))
      rest = rest.dropFirst(count)
    }
  }
}
