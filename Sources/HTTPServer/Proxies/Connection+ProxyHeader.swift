import EventLoop

/// The PROXY header that a trusted proxy begins each connection with, where the server requires one.
///
/// It comes before everything else, TLS included, and is read like everything else: without a task, and with no more
/// memory than its bytes take. The server closes a connection without a valid header and sends nothing, because it
/// cannot know what the bytes mean.
extension Connection {
  /// Reads what is there. Once the header is complete, what follows it is dealt with as on any connection.
  func receiveProxyHeader() throws {
    try receivePlaintext()
    let bytes = input
    let header: ProxyHeader?
    do throws(ProxyHeaderError) {
      header = try ProxyHeader.parse(bytes.span)
    } catch {
      throw refused(error)
    }
    guard let header else {
      // A connection that ends without a byte is a load balancer's health check.
      if peerHasFinished, !bytes.isEmpty { throw refused(.incomplete) }
      return
    }
    awaitsProxyHeader = false
    take(header.source)
    consumed = header.length
    try finishProxyHeader()
  }

  /// Tells the observer why the connection closes.
  func refused(_ error: ProxyHeaderError) -> CloseReason {
    worker.observer.noticed(.proxyHeaderRefused(peer, error))
    return .gone
  }

  /// From now on, the client that the proxy connects for is the peer. A proxy that names no address does not vouch for
  /// what its client says either.
  private func take(_ source: ProxyHeader.Source) {
    switch source {
    case .proxy: break
    case .unknown: isFromTrustedProxy = false
    case .address(let address, let port):
      let peer = SocketAddress.ip(address, port: port, family: address.isIPv4 ? .v4 : .v6)
      isFromTrustedProxy = worker.isTrusted(address)
      setPeer(peer)
      holder = isFromTrustedProxy ? nil : address.rateLimitPrefix.bits
    }
  }

  private func finishProxyHeader() throws {
    guard tls != nil else { return finishHandshake() }
    let rest = input[consumed...]
    let ciphertext = Array(rest)
    input.removeAll(keepingCapacity: true)
    consumed = 0
    if !ciphertext.isEmpty { try decrypt(ciphertext) }
  }
}
