import TLS

/// A client's session with the arrays that an owner would provide.
final class Client {
  let session: TLSSession
  private(set) var plaintext: [UInt8] = []
  private var outgoing: [UInt8] = []

  init(_ context: TLSClientContext, host: String = "localhost", protocols: [String] = ["http/1.1"]) throws {
    session = try TLSSession(context, host: host, applicationProtocols: protocols)
    try session.start(outgoing: &outgoing)
  }

  /// Returns and removes the bytes that the client has to send.
  func takeOutgoing() -> [UInt8] {
    defer { outgoing = [] }
    return outgoing
  }

  @discardableResult
  func receive(_ ciphertext: [UInt8]) throws(TLSError) -> TLSPhase {
    try session.receive(ciphertext.span, plaintext: &plaintext, outgoing: &outgoing)
  }

  func send(_ plaintext: [UInt8]) throws(TLSError) -> [UInt8] {
    try session.send(plaintext.span, outgoing: &outgoing)
    return takeOutgoing()
  }

  /// Passes bytes back and forth until both ends are silent. Throws the error of the client.
  func shakeHands(with server: Server) throws {
    while true {
      let flight = takeOutgoing()
      if flight.isEmpty { return }
      // A server that fails sends an alert, which the client must receive.
      _ = try? server.receive(flight)
      let response = server.takeOutgoing()
      if !response.isEmpty { try receive(response) }
    }
  }
}
