import TLS

/// A client's session with the arrays that its owner would lend it.
final class Client {
  let session: TLSSession
  private(set) var plaintext: [UInt8] = []
  private var outgoing: [UInt8] = []

  init(_ context: TLSClientContext, host: String = "localhost", protocols: [String] = ["http/1.1"]) throws {
    session = try TLSSession(context, host: host, applicationProtocols: protocols)
    try session.start(outgoing: &outgoing)
  }

  /// What the client has to say, taken out.
  func takeOutgoing() -> [UInt8] {
    defer { outgoing = [] }
    return outgoing
  }

  @discardableResult
  func receive(_ ciphertext: [UInt8]) throws(TLSError) -> TLSSession.State {
    try session.receive(ciphertext.span, plaintext: &plaintext, outgoing: &outgoing)
  }

  func send(_ plaintext: [UInt8]) throws(TLSError) -> [UInt8] {
    try session.send(plaintext.span, outgoing: &outgoing)
    return takeOutgoing()
  }

  /// Carries bytes back and forth until both have said what they had to. What ends the client's side is thrown.
  func shakeHands(with server: Server) throws {
    while true {
      let flight = takeOutgoing()
      if flight.isEmpty { return }
      // A server that gives up says why by an alert, which the client is to find out about.
      _ = try? server.receive(flight)
      let response = server.takeOutgoing()
      if !response.isEmpty { try receive(response) }
    }
  }
}
