import ClientTransport
import EventLoop
import HTTP1
import HTTPMessages
import HTTPTypes
import Memory
import TLS

/// Opens one connection for requests: resolves the name, opens the proxy's tunnel and does the TLS handshake. Confined to
/// its loop. It stays alive until it has reported, even if its owner drops it.
final class Dialer: ByteTransportOwner {
  private let configuration: UpstreamClient.Configuration
  private let loop: IOLoop
  private let deadline: Deadline
  private var report: ((Dialer, Result<ByteTransport, UpstreamError>) -> Void)?
  private var connector: Connector?
  private var transport: ByteTransport?
  private let hold: MemoryHold
  /// The parser of the proxy's response. Nil when no response is expected.
  private var tunnelParser: ResponseHeadParser?
  private var stage = UpstreamError.Stage.transport

  init(
    _ configuration: UpstreamClient.Configuration, loop: IOLoop, resolver: NameResolver, hold: MemoryHold,
    report: @escaping (Dialer, Result<ByteTransport, UpstreamError>) -> Void
  ) {
    (self.configuration, self.loop, self.report, self.hold) = (configuration, loop, report, hold)
    deadline = loop.now.advanced(by: configuration.limits.attempt)
    let (host, port) = configuration.proxy.map { ($0.host, $0.port) } ?? (configuration.host, configuration.port)
    connector = Connector(to: host, port: port, loop: loop, resolver: resolver, until: deadline) { self.connected($0) }
  }

  var isWaitingForName: Bool { connector?.isWaitingForName ?? false }

  /// Cancels the attempt without a report.
  func cancel() {
    report = nil
    connector?.cancel()
    connector = nil
    transport?.close()
    transport = nil
  }

  private func connected(_ outcome: Connector.ConnectResult) {
    connector = nil
    switch outcome {
    case .failure(let error):
      if error.cause == .unknownHost || error.cause == .resolverTimedOut { stage = .name }
      finish(.failure(UpstreamError(error)))
    case .success(let channel):
      let transport = ByteTransport(channel, writeProgress: configuration.limits.writeProgress, hold: hold)
      self.transport = transport
      transport.owner = self
      transport.deadline = deadline
      transport.start()
      configuration.proxy == nil ? secure(transport) : askForTunnel(transport)
    }
  }

  private func askForTunnel(_ transport: ByteTransport) {
    stage = .tunnel
    tunnelParser = ResponseHeadParser(answering: .connect, limits: configuration.limits.http1)
    transport.write { output in
      RequestSerializer.appendConnect(
        to: configuration.endpoint, authorization: configuration.proxy?.authorization, &output)
    }
  }

  private func secure(_ transport: ByteTransport) {
    stage = .security
    guard configuration.scheme == .https else { return finish(.success(transport)) }
    guard let context = configuration.tls else {
      return fail(.proxyInternalError, "There are no trusted CAs to verify the certificate of \(configuration.host).")
    }
    do {
      let protocols = configuration.applicationProtocols
      transport.secure(with: try TLSSession(context, host: configuration.host, applicationProtocols: protocols))
    } catch {
      finish(.failure(UpstreamError(error, .unprocessed)))
    }
  }

  func transportBecameSecure(_ transport: ByteTransport) {
    loop.assertCurrent()
    finish(.success(transport))
  }

  func transportReceived(_ transport: ByteTransport) {
    loop.assertCurrent()
    guard var parser = tunnelParser else { return }
    do throws(ResponseError) {
      let bytes = transport.unread
      guard let length = try parser.parse(bytes.span) else {
        tunnelParser = parser
        return
      }
      tunnelParser = nil
      guard (200..<300).contains(parser.head.status) else { return finish(.failure(refusal(parser.head.status))) }
      // In both TLS and HTTP the client sends first.
      guard length == bytes.count else {
        return fail(.protocolError, "\(proxyName) sent bytes through the tunnel before the upstream could.")
      }
      transport.consume(length)
      secure(transport)
    } catch {
      fail(.protocolError, "The response of \(proxyName) is malformed. \(error.reason)")
    }
  }

  func transportTimedOut(_ transport: ByteTransport) {
    loop.assertCurrent()
    guard tunnelParser == nil else { return fail(.connectionTimeout, "\(proxyName) did not respond in time.") }
    fail(.connectionTimeout, "\(configuration.endpoint) did not finish the TLS handshake in time.")
  }

  func transportEnded(_ transport: ByteTransport, _ end: ByteTransportEnd) {
    loop.assertCurrent()
    let peer = tunnelParser != nil ? proxyName : configuration.endpoint
    let error = UpstreamError(end, .unprocessed, with: peer)
    guard case .closed = end else { return finish(.failure(error)) }
    fail(error.cause, "\(peer) closed the connection before it was ready for a request.")
  }

  private var proxyName: String { "The proxy \(configuration.proxy?.description ?? "")" }

  private func refusal(_ status: Int) -> UpstreamError {
    let words =
      switch (status, configuration.proxy?.authorization) {
      case (407, nil): "\(proxyName) needs proxy credentials (407), and its URL has none."
      case (407, _?): "\(proxyName) refuses the proxy credentials in its URL (407)."
      default: "\(proxyName) refuses a tunnel to \(configuration.endpoint) (\(status))."
      }
    var error = UpstreamError(.destinationUnavailable, .unprocessed, words)
    error.proxyStatus = status
    return error
  }

  private func fail(_ cause: UpstreamError.Cause, _ words: String) {
    finish(.failure(UpstreamError(cause, .unprocessed, words)))
  }

  private func finish(_ outcome: Result<ByteTransport, UpstreamError>) {
    guard let report = report.take() else { return }
    // The new owner of a ready transport sets its deadline.
    if case .failure = outcome { transport?.close() }
    transport = nil
    let outcome = outcome.mapError { error in
      var error = error
      error.stage = stage
      return error
    }
    report(self, outcome)
  }
}
