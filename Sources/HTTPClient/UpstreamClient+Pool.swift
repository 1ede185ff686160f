import Bytes
import ClientTransport
import DequeModule
import EventLoop
import HTTP1
import HTTPMessages
import Memory
import TLS

// The choice of a connection for each request, and the opening of connections.
extension UpstreamClient {
  func submit(_ exchange: UpstreamExchange) {
    guard !isClosed else { return exchange.failed(UpstreamError(.cancelled, .unprocessed, "The client was closed.")) }
    let target = exchange.request.target.bytes
    guard RequestSerializer.isOriginForm(target.span) else {
      let words = "The request's target is not a path of visible ASCII characters."
      return exchange.failed(UpstreamError(.proxyInternalError, .unprocessed, words))
    }
    // Most requests find a free connection and need no place in the queue.
    while waiting.isEmpty, let connection = connection(for: exchange) {
      if connection.prepare() { return send(exchange, by: connection) }
    }
    enqueue(exchange)
  }

  private func enqueue(_ exchange: UpstreamExchange) {
    exchange.wait(for: self)
    waiting.append(exchange)
    count { $0.requestsWaiting += 1 }
    dispatch()
  }

  /// Assigns queued requests to connections with room, and opens connections for the remaining requests.
  func dispatch() {
    while let oldest = waiting.first, let connection = connection(for: oldest) {
      // If the connection is unusable, it has ended and has left the pool. That may also have emptied the queue.
      guard connection.prepare() else { continue }
      guard let exchange = waiting.popFirst() else { break }
      count { $0.requestsWaiting -= 1 }
      send(exchange, by: connection)
    }
    openConnections()
  }

  private func send(_ exchange: UpstreamExchange, by connection: any UpstreamConnection) {
    let isReused = connection.hasCarried
    count {
      $0.requestsSent += 1
      $0.requestsOpen += 1
      if isReused { $0.requestsOnReusedConnection += 1 }
    }
    do throws(Unsendable) {
      try connection.carry(exchange)
    } catch {
      exchangeEnded()
      redirect(exchange, from: connection, error)
    }
  }

  /// Returns a connection with room. A request too large for one peer needs a connection with known settings.
  private func connection(for exchange: UpstreamExchange) -> (any UpstreamConnection)? {
    connections.last { $0.room > 0 && !(exchange.isTooLargeForSome && $0.isSettling) }
  }

  /// Reroutes a request that a connection does not send.
  ///
  /// The limit for header fields is a setting of each HTTP/2 connection, so the client first tries another and drains
  /// this one. Then this request and all similar ones use HTTP/1.1, where the upstream itself responds.
  private func redirect(_ exchange: UpstreamExchange, from connection: any UpstreamConnection, _ reason: Unsendable) {
    switch reason {
    case .malformed(let error): exchange.failed(error)
    case .fieldSectionTooLarge where !exchange.isTooLargeForSome && !hasSmallFieldSections:
      exchange.isTooLargeForSome = true
      connection.drain()
      enqueue(exchange)
    case .fieldSectionTooLarge(let limit):
      hasSmallFieldSections = true
      if let http1 = overHTTP1() { return http1.submit(exchange) }
      let words = "The request's header section is larger than the \(limit) bytes that the upstream allows."
      exchange.failed(UpstreamError(.proxyInternalError, .unprocessed, words))
    }
  }

  /// Opens one connection for each queued request, within the limits. For HTTP/2 or an unknown protocol, one at a time.
  private func openConnections() {
    guard !waiting.isEmpty, !isClosed, !connections.contains(where: \.isSettling) else { return }
    let limits = configuration.limits
    let isHTTP1 = speaksHTTP2 == false
    let free = (isHTTP1 ? limits.http1Connections : limits.http2Connections) - connections.count
    let wanted = min(free, isHTTP1 ? waiting.count : 1)
    guard dialers.count < wanted else { return }
    guard backOff.until <= loop.now else {
      backOffAlarm?.cancel()
      return backOffAlarm = Alarm(at: backOff.until, by: self) {
        self.backOffAlarm = nil
        self.dispatch()
      }
    }
    while dialers.count < wanted, let hold = holdForConnection() { dial(hold) }
  }

  /// Returns the memory for one more connection, or nil if the budget refuses it. The first is never refused.
  private func holdForConnection() -> MemoryHold? {
    let hold = MemoryHold(configuration.memory, for: nil)
    guard connections.isEmpty, dialers.isEmpty else {
      return hold.resize(to: ByteTransport.cost, for: .upstream) ? hold : nil
    }
    hold.force(to: ByteTransport.cost)
    return hold
  }

  private func dial(_ hold: MemoryHold) {
    let dialer = Dialer(configuration, loop: loop, resolver: resolver, hold: hold) { [self] dialer, outcome in
      dialers.removeAll { $0 === dialer }
      switch outcome {
      case .success(let transport): connected(transport)
      case .failure(let error): failed(error)
      }
      dispatch()
    }
    dialers.append(dialer)
  }

  private func connected(_ transport: ByteTransport) {
    guard !isClosed else { return transport.close() }
    let isHTTP2 = configuration.http2 == .priorKnowledge || transport.tls?.applicationProtocol == "h2"
    speaksHTTP2 = isHTTP2
    lastFailure = nil
    count {
      $0.connectionsOpened += 1
      $0.connectionsOpen += 1
      if transport.tls?.wasResumed == true { $0.handshakesResumed += 1 }
    }
    if !isHTTP2 { return connections.append(HTTP1Connection(transport, configuration, pool: self)) }
    do {
      connectionNumber &+= 1
      connections.append(try HTTP2Connection(transport, configuration, pool: self, number: connectionNumber))
    } catch {
      count { $0.connectionsOpen -= 1 }
      transport.close()
      failed(UpstreamError(.proxyInternalError, .unprocessed, "There is no HTTP/2 session (\(error))."))
    }
  }

  /// Fails the queued requests, unless a connection or another attempt is left for them, or, after a timeout, will be.
  private func failed(_ error: UpstreamError) {
    count { $0.connectionsFailed += 1 }
    lastFailure = error
    backOff.failed(at: loop.now, jitter: .random(in: 0...1))
    let isTimeout = error.cause == .connectionTimeout || error.cause == .dnsTimeout
    guard connections.isEmpty, dialers.isEmpty, !isTimeout else { return }
    failWaiting(error)
  }

  private func failWaiting(_ error: UpstreamError) {
    // A failed caller may submit another request at once. The count is fixed, so the new request does not fail as well.
    for _ in 0..<waiting.count {
      waiting.popFirst()?.failed(error)
      count { $0.requestsWaiting -= 1 }
    }
  }

  func shutDown() {
    loop.assertCurrent()
    isClosed = true
    for dialer in dialers { dialer.cancel() }
    dialers = []
    backOffAlarm.take()?.cancel()
    for connection in connections + draining { connection.close() }
    http1?.shutDown()
    failWaiting(UpstreamError(.cancelled, .unprocessed, "The client was closed."))
    for timer in spareTimers { timer.close() }
    spareTimers = []
  }
}

/// What connections report.
extension UpstreamClient {
  func connectionHasRoom(_ connection: any UpstreamConnection) {
    // The most recently used connection is used next, so that other connections can reach their idle timeout.
    if let index = connections.lastIndex(where: { $0 === connection }), connections.count > 1 {
      connections.append(connections.remove(at: index))
    }
    dispatch()
  }

  /// A response arrived on a connection, so the upstream works.
  func connectionProved() { backOff.succeeded() }

  /// A connection accepts no more exchanges, and ends after the last one in flight.
  func connectionDrains(_ connection: any UpstreamConnection) {
    guard let index = connections.firstIndex(where: { $0 === connection }) else { return }
    draining.append(connections.remove(at: index))
    dispatch()
  }

  func connectionEnded(_ connection: any UpstreamConnection, _ use: ConnectionUse) {
    switch use {
    case .unusable: backOff.failed(at: loop.now, jitter: .random(in: 0...1))
    case .unanswered: backOff.broke(at: loop.now, jitter: .random(in: 0...1))
    case .useful: break
    }
    connections.removeAll { $0 === connection }
    draining.removeAll { $0 === connection }
    count { $0.connectionsOpen -= 1 }
    dispatch()
  }

  func exchangeEnded() { count { $0.requestsOpen -= 1 } }

  /// Bytes on an HTTP/1.1 connection answer no request.
  func receivedUnsolicited() {
    count { $0.unsolicitedResponses += 1 }
    distrustsReuseUntil = loop.now.advanced(by: configuration.limits.distrust)
  }

  /// Whether an HTTP/1.1 connection may carry another request after its first.
  var reusesHTTP1: Bool { distrustsReuseUntil.map { $0 <= loop.now } ?? true }

  /// Removes an exchange that no longer waits. One whose time is over is close to the front.
  func leave(_ exchange: UpstreamExchange) {
    guard let index = waiting.firstIndex(where: { $0 === exchange }) else { return }
    waiting.remove(at: index)
    count { $0.requestsWaiting -= 1 }
  }

  /// Returns the error of an exchange whose time in the queue is over; nil if it should wait until its whole deadline.
  func timeoutError(isWhole: Bool) -> UpstreamError? {
    let endpoint = configuration.endpoint
    if !connections.isEmpty {
      guard isWhole else { return nil }
      let words = "All \(connections.count) connections to \(endpoint) were busy for too long."
      return UpstreamError(.connectionLimitReached, .unprocessed, words)
    }
    if let lastFailure { return lastFailure }
    guard dialers.contains(where: \.isWaitingForName) else {
      return UpstreamError(.connectionTimeout, .unprocessed, "There was no connection to \(endpoint) in time.")
    }
    return UpstreamError(.dnsTimeout, .unprocessed, "The resolver did not resolve the name of \(endpoint) in time.")
  }
}

/// What a connection was good for, when it ends.
enum ConnectionUse {
  /// It became unusable before it carried the request that waited for it: the same as a failed attempt at a connection.
  case unusable
  /// It ended before its first response, and took its requests with it.
  case unanswered
  /// It carried responses, or nothing waited for it.
  case useful
}
