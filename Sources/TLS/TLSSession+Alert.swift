import COpenSSL

/// How a server ends a handshake that it has waited for long enough.
extension TLSSession {
  /// Gives up a handshake that the peer does not finish in time. The session is over then.
  /// - Parameter outgoing: Gets the alert, appended.
  /// - Returns: What happened.
  public func expireHandshake(outgoing: inout [UInt8]) -> TLSError {
    let error = TLSError(.limitExceeded, "The peer did not finish the TLS handshake in time.", failure: .timedOut)
    endHandshake(with: error, SSL_AD_USER_CANCELLED, outgoing: &outgoing)
    return error
  }

  /// What happened when the peer closed its side before the handshake was done; nil if it never sent a byte, as load
  /// balancers do that only look whether the port is open.
  public var unfinishedHandshake: TLSError? {
    guard state == .handshaking, hasReceived else { return nil }
    return TLSError(.violationByPeer, "The peer closed the connection during the TLS handshake.", failure: .closed)
  }

  /// Writes a fatal alert. OpenSSL has no function for it.
  func writeAlert(_ alert: Int32) {
    // Nothing has been sent: so nothing is encrypted yet (RFC 8446 §5.1).
    guard transport.hasWritten else {
      transport.outgoing += [UInt8(SSL3_RT_ALERT), 3, 3, 0, 2, UInt8(SSL3_AL_FATAL), UInt8(truncatingIfNeeded: alert)]
      return
    }
    // The header of a record that is too long has OpenSSL write an alert, encrypted if it has to be: record_overflow.
    let header: [UInt8] = [UInt8(SSL3_RT_APPLICATION_DATA), 3, 3, 0xff, 0xff]
    unsafe header.withUnsafeBytes { bytes in
      unsafe transport.incoming = bytes
      ErrorQueue.clear()
      unsafe SSL_do_handshake(ssl)
      ErrorQueue.clear()
      unsafe transport.incoming = UnsafeRawBufferPointer(start: nil, count: 0)
    }
  }
}
