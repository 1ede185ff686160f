import Glibc

/// A connector that makes one connection to a host (Happy Eyeballs, RFC 8305), or to a Unix-domain socket.
///
/// It tries cached addresses of a name at once. Unless they are very new, it looks the name up in parallel and also tries
/// new addresses, so a changed address costs no more than one that does not respond. After a failure it looks the name up
/// first. It stays alive until it has reported, even if its owner drops it.
package final class Connector: ChannelDelegate {
  package typealias ConnectResult = Result<Channel, ConnectError>

  /// The time after which the next address is tried as well (RFC 8305 §5, "Connection Attempt Delay").
  static let attemptDelay = Duration.milliseconds(250)
  /// The age up to which cached addresses are used without looking up the name again.
  static let freshness = Duration.seconds(1)
  /// The age up to which cached addresses are tried before the look-up has finished.
  static let lifetime = Duration.seconds(30)
  /// The time after which a slow look-up makes the connector try addresses past their lifetime.
  static let patience = Duration.seconds(1)
  /// The time by which the deadline of each attempt exceeds the connector's deadline, so that the timer ends them all.
  private static let margin = Duration.seconds(1)
  /// The bytes of the kernel's buffer in each direction (it reserves twice as much for itself): at 50 ms to the peer, 2.6
  /// MB/s. By default, it buffers megabytes of a response with a slow reader.
  package static let socketBuffer = 131_072

  private let loop: IOLoop
  private let resolver: NameResolver?
  private let host: String
  private let port: UInt16
  private let deadline: Deadline
  private let timer: Channel
  private var hasStarted = false
  private var order = AddressOrder()
  private var attempts: [(channel: Channel, address: SocketAddress)] = []
  private var failures: [(address: SocketAddress, error: SocketError)] = []
  private var isResolving = false
  private var resolutionError: ResolutionError?
  /// Cached addresses past their lifetime, which are tried if there are no better ones.
  private var stale: [SocketAddress] = []
  private var report: ((ConnectResult) -> Void)?

  /// Starts to connect to a name or an IP address, or without a resolver to the path of a Unix-domain socket. `report`
  /// receives the outcome, once, on the loop and never before this initializer returns.
  package init(
    to host: String, port: UInt16 = 0, loop: IOLoop, resolver: NameResolver?, until deadline: Deadline,
    report: @escaping (ConnectResult) -> Void
  ) {
    (self.host, self.port, self.loop, self.resolver) = (host, port, loop, resolver)
    (self.deadline, self.report) = (deadline, report)
    timer = loop.openTimer()
    timer.sleep(until: loop.now, self)
  }

  /// Whether the connector waits for a look-up and has tried no address.
  package var isWaitingForName: Bool { isResolving && attempts.isEmpty && failures.isEmpty }

  /// Gives up without a report.
  package func cancel() {
    loop.assertCurrent()
    report = nil
    close()
  }

  private func start() {
    guard let resolver else {
      order.add([.unix(path: host)])
      return tryNext()
    }
    if let address = IPAddress(host) {
      order.add([.ip(address, port: port)])
    } else if let addresses = SocketAddress.loopback(named: host, port: port) {
      order.add(addresses)
    } else {
      let memory = resolver.memory(of: host, port: port)
      let age = memory.map { $0.isDoubtful ? Self.lifetime : loop.now.duration(since: $0.found) } ?? Self.lifetime
      if age < Self.lifetime { order.add(memory?.addresses ?? []) } else { stale = memory?.addresses ?? [] }
      if age >= Self.freshness {
        isResolving = true
        resolver.find(host, port: port) { [weak self] outcome in self?.resolved(outcome) }
      }
    }
    tryNext()
  }

  private func resolved(_ outcome: NameResolver.Resolution) {
    guard report != nil else { return }
    isResolving = false
    let wasIdle = attempts.isEmpty
    switch outcome {
    case .success(let addresses): order.add(addresses)
    case .failure(let error):
      resolutionError = error
      order.add(stale)
    }
    if wasIdle { tryNext() } else { wait() }
  }

  /// Tries the next address, if there is one. Reports the failure if no attempt and no look-up is left.
  private func tryNext() {
    while let address = order.next() {
      do throws(SocketError) {
        let channel = loop.open(try Descriptor.connecting(to: address), isConnection: true)
        channel.rank = .second
        attempts.append((channel, address))
        channel.watch(for: .write, until: deadline.advanced(by: Self.margin), self)
        break
      } catch {
        failures.append((address, error))
      }
    }
    if attempts.isEmpty, !isResolving { finish(.failure(failure)) } else { wait() }
  }

  private func wait() {
    let pause = !order.isEmpty ? Self.attemptDelay : !stale.isEmpty ? Self.patience : nil
    timer.sleep(until: min(deadline, pause.map { loop.now.advanced(by: $0) } ?? .never), self)
  }

  private var failure: ConnectError {
    guard failures.isEmpty, let resolutionError else { return ConnectError(host, failures) }
    return ConnectError(.unknownHost, "No connection to \(host): \(resolutionError.reason).")
  }

  package func channel(_ channel: Channel, became readiness: Readiness) {
    loop.assertCurrent()
    guard report != nil else { return }
    if channel === timer {
      timerEnded(readiness)
    } else if let index = attempts.firstIndex(where: { $0.channel === channel }) {
      attemptEnded(attempts.remove(at: index), readiness)
    }
  }

  private func timerEnded(_ readiness: Readiness) {
    guard readiness == .timedOut else { return finish(.failure(ConnectError(host, failures))) }
    if !hasStarted {
      hasStarted = true
      start()
    } else if loop.now >= deadline {
      finish(.failure(timeout))
    } else {
      if order.isEmpty { order.add(stale) }
      stale = []
      tryNext()
    }
  }

  private var timeout: ConnectError {
    guard !attempts.isEmpty || !failures.isEmpty else {
      return ConnectError(.resolverTimedOut, "No connection to \(host): the resolver did not resolve the name in time.")
    }
    let tried = attempts.map { ($0.address, SocketError(call: "connect", code: ETIMEDOUT)) }
    return ConnectError(host, failures + tried)
  }

  private func attemptEnded(_ attempt: (channel: Channel, address: SocketAddress), _ readiness: Readiness) {
    guard let error = Self.error(of: attempt.channel, readiness) else { return finish(.success(attempt.channel)) }
    failures.append((attempt.address, error))
    attempt.channel.close()
    tryNext()
  }

  private static func error(of channel: Channel, _ readiness: Readiness) -> SocketError? {
    guard readiness == .ready else { return SocketError(call: "connect", code: ECANCELED) }
    guard let code = Descriptor.option(SO_ERROR, of: channel.raw) else { return SocketError(during: "getsockopt") }
    return code == 0 ? nil : SocketError(call: "connect", code: code)
  }

  private func finish(_ outcome: ConnectResult) {
    let report = report
    self.report = nil
    if case .failure = outcome { resolver?.doubt(host, port: port) }
    close()
    report?(outcome)
  }

  private func close() {
    timer.close()
    for attempt in attempts { attempt.channel.close() }
    attempts = []
  }
}

extension Descriptor {
  /// The milliseconds of unacknowledged bytes after which the kernel closes a connection (tcp(7)): its peer has vanished.
  private static let unacknowledged: Int32 = 4500
  /// The seconds of silence after which the kernel probes the peer.
  private static let keepAliveIdle: Int32 = 30

  fileprivate static func connecting(to address: SocketAddress) throws(SocketError) -> Descriptor {
    let descriptor = try Descriptor.socket(family: address.family)
    if address.port != nil { try descriptor.setTCPOptions() }
    try descriptor.set(SOL_SOCKET, SO_RCVBUF, Int32(Connector.socketBuffer))
    try descriptor.set(SOL_SOCKET, SO_SNDBUF, Int32(Connector.socketBuffer))
    let raw = descriptor.raw
    let result = unsafe try address.withSocketAddress { unsafe connect(raw, $0, $1) }
    guard result == 0 || errno == EINPROGRESS || errno == EINTR else { throw SocketError(during: "connect") }
    return descriptor
  }

  private borrowing func setTCPOptions() throws(SocketError) {
    let tcp = Int32(IPPROTO_TCP)
    try set(tcp, TCP_NODELAY, 1)
    try set(SOL_SOCKET, SO_KEEPALIVE, 1)
    try set(tcp, TCP_KEEPIDLE, Self.keepAliveIdle)
    try set(tcp, TCP_USER_TIMEOUT, Self.unacknowledged)
  }
}

package struct ConnectError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The kind of failure; of several, the most informative.
  package enum Cause: Sendable, Equatable {
    case unknownHost, resolverTimedOut, refused, unroutable, timedOut
    /// This system refused for another reason, for example because it has no free descriptors.
    case failed
  }

  package let cause: Cause
  /// One sentence with the host, and what happened with each of its addresses.
  package let description: String

  init(_ cause: Cause, _ description: String) {
    self.cause = cause
    self.description = description
  }

  init(_ host: String, _ failures: [(address: SocketAddress, error: SocketError)]) {
    let causes = failures.map { Self.cause($0.error) }
    let found = [Cause.refused, .timedOut, .unroutable, .failed].first { causes.contains($0) } ?? .failed
    let list = failures.prefix(4).map { "\($0.address): \($0.error)" }.joined(separator: "; ")
    self.init(found, "No connection to \(host) (\(failures.isEmpty ? "it has no addresses" : list)).")
  }

  private static func cause(_ error: SocketError) -> Cause {
    switch error.code {
    // The last is that of a Unix-domain socket without a server.
    case ECONNREFUSED, ECONNRESET, ENOENT: .refused
    case ENETUNREACH, EHOSTUNREACH, ENETDOWN, EHOSTDOWN, EADDRNOTAVAIL, EAFNOSUPPORT: .unroutable
    case ETIMEDOUT: .timedOut
    default: .failed
    }
  }
}
