import EventLoop
import HTTPMessages
import HTTPTypes
import TLS

/// Reads and writes that wait, and the end of TLS sessions.
extension Connection {
  // MARK: Reading

  /// Reads the available bytes, once.
  func receive() throws(CloseReason) {
    channel.loop.assertCurrent()
    do {
      if state.awaitsProxyHeader {
        try receiveProxyHeader()
      } else if try transport.receive() == .established {
        try finishHandshake()
      }
    } catch let error as TLSError {
      throw .failedTLS(error)
    } catch {
      noticeUnfinishedHandshake()
      throw .gone
    }
  }

  /// Records that everything before the first request is complete. If TLS has negotiated HTTP/2, no other protocol may
  /// follow (RFC 9113 §3.2).
  func finishHandshake() throws(CloseReason) {
    channel.loop.assertCurrent()
    guard state.isHandshaking, state.handshakeCompleted(at: now, isClosing: worker.stage == .closing) else { return }
    peer.certificate = transport.tls?.clientCertificate
    if worker.http2 != .never, transport.tls?.applicationProtocol == HTTP2Streams.name { try beginHTTP2() }
  }

  /// Waits for more input in the middle of a request. First writes responses that the peer may wait for.
  func receiveMore(until deadline: Deadline) async throws(CloseReason) {
    channel.loop.assertCurrent()
    guard !transport.peerHasFinished else { throw .gone }
    if transport.readWouldBlock {
      try await flush()
      transport.releaseBuffers()
      guard account() else { throw .refused(.overMemory) }
      switch await channel.readable(until: deadline) {
      case .ready: transport.borrowBuffers()
      case .timedOut: throw .refused(.bodyTimeout)
      case .cancelled: throw .refused(.draining)
      }
    } else {
      transport.compactInput()
    }
    try receive()
  }

  // MARK: Writing

  /// Returns the response with Strict-Transport-Security if the connection uses TLS. Browsers ignore the field in plain
  /// HTTP, and a server must not send it there (RFC 6797 §7.2).
  func secure(_ response: inout Response) {
    guard transport.tls != nil, let value = worker.strictTransportSecurity else { return }
    if response.fields.isEmpty {
      response.fields = worker.strictTransportSecurityOnly
    } else {
      response.fields[.strictTransportSecurity] = value
    }
  }

  func flush() async throws(CloseReason) {
    channel.loop.assertCurrent()
    if try !transport.flushAtOnce() { try await transmit() }
  }

  /// Writes all pending bytes, without a total time limit as long as the peer makes progress.
  func transmit() async throws(CloseReason) {
    channel.loop.assertCurrent()
    while try !transport.transmitAtOnce() {
      transport.releaseBuffers()
      guard account() else { throw .brokenOff }
      guard await channel.writable(until: state.writeDeadline(at: now)) == .ready else { throw .brokenOff }
    }
    transport.borrowBuffers()
  }

  // MARK: The end of TLS

  /// Ends a connection after a failure of TLS: with the alert, or with plain HTTP for a client that sent plain HTTP.
  func endTLS(_ error: TLSError) {
    channel.loop.assertCurrent()
    worker.observer.noticed(.tlsFailed(peer.address, error))
    transport.abandonTLS()
    if error.cause == .plaintextHTTP {
      refuse(.plaintextOnTLS)
      transport.putInClear()
    }
    if transport.sendAtOnce() { linger() } else { close() }
  }

  /// Ends a connection with a TLS handshake that takes too long.
  func expireHandshake() {
    channel.loop.assertCurrent()
    // Also a peer without its first message gets an alert, which needs a session.
    if let context = awaitedTLS { transport.tls = try? TLSSession(context) }
    if let error = transport.expireHandshake() { worker.observer.noticed(.tlsFailed(peer.address, error)) }
    close()
  }

  /// Notifies the observer if the peer has gone in the middle of a handshake.
  func noticeUnfinishedHandshake() {
    if let error = transport.tls?.unfinishedHandshake { worker.observer.noticed(.tlsFailed(peer.address, error)) }
  }
}
