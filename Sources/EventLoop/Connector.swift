import Glibc

/// Makes one connection to a host: finds its addresses and tries them in turn, each a little after the one before, until
/// one is connected (Happy Eyeballs, RFC 8305). The first wins, the others are closed.
///
/// The connector tries remembered addresses of a name at once. Unless these are very new, it looks the name up
/// meanwhile and tries new addresses as well. So a changed address costs no more than one that does not respond.
/// After a failure the connector looks the name up first.
///
/// Confined to its loop. It stays alive until it has reported, even if its owner drops it.
public final class Connector: ChannelDelegate {
  /// How the connection came out.
  public typealias Outcome = Result<Channel, ConnectError>

  /// How long an address may take before the next one is tried as well (RFC 8305 §5, "Connection Attempt Delay").
  static let attemptDelay = Duration.milliseconds(250)

  /// How long a found address is good enough not to look up the name again.
  static let freshness = Duration.seconds(1)

  /// How long a found address is tried without waiting for the name to be looked up.
  static let lifetime = Duration.seconds(30)

  /// How long a look-up may take until addresses past their lifetime are tried all the same.
  static let patience = Duration.seconds(1)

  /// How much longer than the timer each attempt waits: the timer is to end them all.
  private static let margin = Duration.seconds(1)

  /// Bytes that the kernel takes in either direction (it reckons with twice as many for itself): at 50 ms to the peer,
  /// 2.6 MB/s. Without it, the kernel takes megabytes of a response whose reader is slow.
  public static let socketBuffer = 131_072

  private let loop: IOLoop
  private let resolver: NameResolver
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
  /// Addresses past their lifetime, for want of better ones.
  private var stale: [SocketAddress] = []
  private var report: ((Outcome) -> Void)?

  /// Begins to connect.
  /// - Parameters:
  ///   - host: A name or an IP address.
  ///   - deadline: When to give up.
  ///   - report: Told the outcome, once, on the loop and never before this returns.
  public init(
    to host: String, port: UInt16, loop: IOLoop, resolver: NameResolver, until deadline: Deadline,
    report: @escaping (Outcome) -> Void
  ) {
    self.loop = loop
    self.resolver = resolver
    self.host = host
    self.port = port
    self.deadline = deadline
    self.report = report
    timer = loop.openTimer()
    timer.sleep(until: loop.now, self)
  }

  /// Whether nothing has happened yet but that the name is being looked up.
  public var isWaitingForName: Bool { isResolving && attempts.isEmpty && failures.isEmpty }

  /// Gives up, without a report.
  public func cancel() {
    loop.assertCurrent()
    report = nil
    close()
  }

  // MARK: Addresses

  private func start() {
    if let address = IPAddress(host) {
      order.add([.ip(address, port: port, family: address.isIPv4 ? .v4 : .v6)])
    } else {
      let memory = resolver.memory(of: host, port: port)
      let age = memory.map { $0.isDoubtful ? Self.lifetime : loop.now.duration(since: $0.found) } ?? Self.lifetime
      if age < Self.lifetime { order.add(memory?.addresses ?? []) } else { stale = memory?.addresses ?? [] }
      if age >= Self.freshness { resolve() }
    }
    tryNext()
  }

  private func resolve() {
    isResolving = true
    resolver.find(host, port: port) { [weak self] outcome in self?.resolved(outcome) }
  }

  private func resolved(_ outcome: NameResolver.Outcome) {
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

  // MARK: Attempts

  /// Tries the next address, if there is one; ends if nothing is left to hope for.
  private func tryNext() {
    while let address = order.next() {
      do throws(SocketError) {
        let channel = loop.openConnection(try Descriptor.connecting(to: address))
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

  // MARK: Events

  /// Called by the loop: an attempt has come to an end, or it is time for the next.
  public func channel(_ channel: Channel, became readiness: Readiness) {
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
      return ConnectError(.resolverTimedOut, "No connection to \(host): the name was not resolved in time.")
    }
    let tried = attempts.map { ($0.address, SocketError(call: "connect", code: ETIMEDOUT)) }
    return ConnectError(host, failures + tried)
  }

  private func attemptEnded(_ attempt: (channel: Channel, address: SocketAddress), _ readiness: Readiness) {
    guard let error = attempt.channel.connectionError(readiness) else { return finish(.success(attempt.channel)) }
    failures.append((attempt.address, error))
    attempt.channel.close()
    tryNext()
  }

  private func finish(_ outcome: Outcome) {
    let report = report
    self.report = nil
    if case .failure = outcome { resolver.doubt(host, port: port) }
    close()
    report?(outcome)
  }

  private func close() {
    timer.close()
    let losers = attempts
    attempts = []
    for loser in losers { loser.channel.close() }
  }
}

extension Channel {
  /// Why an attempt to connect has failed; nil if it has not.
  fileprivate func connectionError(_ readiness: Readiness) -> SocketError? {
    guard readiness == .ready else { return SocketError(call: "connect", code: ECANCELED) }
    var code: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    guard unsafe getsockopt(raw, SOL_SOCKET, SO_ERROR, &code, &length) == 0 else {
      return SocketError(during: "getsockopt")
    }
    return code == 0 ? nil : SocketError(call: "connect", code: code)
  }
}

extension Descriptor {
  /// Milliseconds for which sent bytes may stay unacknowledged before the kernel gives the connection up (tcp(7)): a
  /// peer that is gone without a word is noticed within 5 s.
  private static let unacknowledged: Int32 = 4500

  /// Seconds of silence after which the kernel asks whether the peer is there.
  private static let keepAliveIdle: Int32 = 30

  /// A socket that has begun to connect.
  fileprivate static func connecting(to address: SocketAddress) throws(SocketError) -> Descriptor {
    let descriptor = try Descriptor.socket(family: address.family)
    let tcp = Int32(IPPROTO_TCP)
    try descriptor.set(tcp, TCP_NODELAY, 1)
    try descriptor.set(SOL_SOCKET, SO_KEEPALIVE, 1)
    try descriptor.set(SOL_SOCKET, SO_RCVBUF, Int32(Connector.socketBuffer))
    try descriptor.set(SOL_SOCKET, SO_SNDBUF, Int32(Connector.socketBuffer))
    #if os(Linux)
      try descriptor.set(tcp, TCP_KEEPIDLE, keepAliveIdle)
      try descriptor.set(tcp, TCP_USER_TIMEOUT, unacknowledged)
    #endif
    let raw = descriptor.raw
    let result = unsafe try address.withSocketAddress { unsafe connect(raw, $0, $1) }
    guard result == 0 || errno == EINPROGRESS || errno == EINTR else { throw SocketError(during: "connect") }
    return descriptor
  }
}

/// No connection to a host could be made.
public struct ConnectError: Error, Sendable, Equatable, CustomStringConvertible {
  /// What stood in the way.
  public enum Cause: Sendable, Equatable {
    /// The name does not resolve.
    case unknownHost
    /// The resolver did not answer in time.
    case resolverTimedOut
    /// The host answered, and refused.
    case refused
    /// There is no way to it.
    case unroutable
    /// The host did not answer in time.
    case timedOut
    /// This system refused for another reason, for example because it has no free descriptors.
    case failed
  }

  /// What stood in the way.
  public let cause: Cause
  /// One sentence: the host, and what happened with each of its addresses.
  public let description: String

  init(_ cause: Cause, _ description: String) {
    self.cause = cause
    self.description = description
  }

  /// What came of all addresses of `host`; the first one that says most decides about the cause.
  init(_ host: String, _ failures: [(address: SocketAddress, error: SocketError)]) {
    let causes = failures.map { Cause($0.error) }
    let found = [Cause.refused, .timedOut, .unroutable, .failed].first { causes.contains($0) } ?? .failed
    let list = failures.prefix(4).map { "\($0.address): \($0.error)" }.joined(separator: "; ")
    self.init(found, "No connection to \(host) (\(failures.isEmpty ? "it has no addresses" : list)).")
  }
}

extension ConnectError.Cause {
  fileprivate init(_ error: SocketError) {
    self =
      switch error.code {
      case ECONNREFUSED, ECONNRESET: .refused
      case ENETUNREACH, EHOSTUNREACH, ENETDOWN, EHOSTDOWN, EADDRNOTAVAIL, EAFNOSUPPORT: .unroutable
      case ETIMEDOUT: .timedOut
      default: .failed
      }
  }
}
