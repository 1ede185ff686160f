import TLS
import TestSupport

/// A server's session with the arrays that an owner would provide.
final class Server {
  let session: TLSSession
  private(set) var plaintext: [UInt8] = []
  private var outgoing: [UInt8] = []

  init(_ context: TLSContext) throws {
    session = try TLSSession(context)
  }

  /// Returns and removes the bytes that the server has to send.
  func takeOutgoing() -> [UInt8] {
    defer { outgoing = [] }
    return outgoing
  }

  @discardableResult
  func receive(_ ciphertext: some Collection<UInt8>) throws(TLSError) -> TLSPhase {
    try session.receive(Array(ciphertext).span, plaintext: &plaintext, outgoing: &outgoing)
  }

  func send(_ plaintext: [UInt8]) throws(TLSError) -> [UInt8] {
    try session.send(plaintext.span, outgoing: &outgoing)
    return takeOutgoing()
  }

  func expireHandshake() -> TLSError { session.expireHandshake(outgoing: &outgoing) }

  func close() -> [UInt8] {
    session.close(outgoing: &outgoing)
    return takeOutgoing()
  }

  /// Passes bytes back and forth until both ends are silent.
  func shakeHands(with client: TLSClient) throws {
    client.receive([])
    while true {
      let flight = client.takeOutgoing()
      if flight.isEmpty { return }
      try receive(flight)
      client.receive(takeOutgoing())
    }
  }
}
