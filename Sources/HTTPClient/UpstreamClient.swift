import ClientTransport
import DequeModule
public import EventLoop
public import HTTP1
public import HTTPMessages
import Locks
public import Memory
public import TLS

/// The client of one upstream server on one event loop: its connections, and the requests that wait for a connection.
///
/// HTTP/2 requests share few connections, each with as many streams as the peer allows; another is opened only when all
/// are full. An HTTP/1.1 connection carries one request at a time. A request is sent once. Requests without a free
/// connection wait in order of arrival. The client and its connections keep each other until `close`, which every owner
/// must call.
///
/// Confined to its loop. Only `init`, `counters` and `close` may be called on any thread.
public final class UpstreamClient: Upstream, @unchecked Sendable {
  // Sendable: all except `shared` is confined to the loop. Tasks run on the loop, and other threads use `post`.

  /// The loop of the client.
  public let loop: IOLoop
  let configuration: Configuration

  let resolver: NameResolver
  var connections: [any UpstreamConnection] = []
  /// Connections that end after their last exchange in flight.
  var draining: [any UpstreamConnection] = []
  var dialers: [ObjectIdentifier: Dialer] = [:]
  /// The exchanges that wait for a connection, in order of arrival.
  var waiting: Deque<UpstreamExchange> = []
  var backOff: BackOff
  /// Timers that no exchange uses at present.
  var spareTimers: [Channel] = []
  /// The timer that wakes the client when the backoff has ended.
  var backOffTimer: Channel?
  /// Whether the upstream speaks HTTP/2. Nil while unknown.
  var speaksHTTP2: Bool?
  /// The error of the last attempt at a connection. Nil if it succeeded.
  var lastFailure: UpstreamError?
  var isClosed = false
  /// The time until which HTTP/1.1 connections close after one response, because the upstream sent an unsolicited
  /// response: the client cannot tell which request a response on a reused connection answers (RFC 9112 §9.2).
  var distrustsReuseUntil: Deadline?
  /// Whether two connections in a row allowed only small header sections, so that the limit is not an exception.
  var hasSmallFieldSections = false
  /// The number of the last HTTP/2 connection. Each client starts at a random number, so that no two share numbers.
  var connectionNumber = UInt64.random(in: 0...UInt64.max)

  /// The state that other threads may read.
  private struct Shared {
    var tally = UpstreamCounters()
    /// The client for requests that are too large for HTTP/2 with this upstream. Created on first use.
    var http1: UpstreamClient?
  }

  private let shared = Locked(Shared())

  /// Creates a client. It opens its first connection for its first request. On any thread.
  public init(_ configuration: Configuration, loop: IOLoop) {
    self.configuration = configuration
    self.loop = loop
    resolver = NameResolver(loop: loop, lookUp: configuration.lookUp)
    backOff = BackOff(least: configuration.limits.leastBackOff, longest: configuration.limits.longestBackOff)
    speaksHTTP2 = configuration.presumedHTTP2
  }

  /// The totals and present numbers of the client. On any thread.
  public var counters: UpstreamCounters {
    let (own, other) = shared.withLock { ($0.tally, $0.http1) }
    var sum = own
    if let other { sum.add(other.counters) }
    return sum
  }

  /// Returns the client for the same upstream over HTTP/1.1, and creates it if it `isWanted`.
  func overHTTP1(isWanted: Bool) -> UpstreamClient? {
    if let client = shared.withLock({ $0.http1 }) { return client }
    guard isWanted, configuration.http2 == .alpn else { return nil }
    var configuration = configuration
    configuration.http2 = .never
    let client = UpstreamClient(configuration, loop: loop)
    shared.withLock { $0.http1 = client }
    return client
  }

  func count(_ change: (inout UpstreamCounters) -> Void) { shared.withLock { change(&$0.tally) } }

  /// The most spare timers: as many as requests are usually in flight. A queue that was longer does not stay in memory.
  private static let mostSpareTimers = 128

  /// Returns a timer for an exchange or an alarm. Its deadline seldom passes, so another one can use it afterwards.
  func borrowTimer() -> Channel {
    loop.assertCurrent()
    return spareTimers.popLast() ?? loop.openTimer()
  }

  /// Takes back the timer of an exchange or an alarm that has ended.
  func takeBack(_ timer: Channel) {
    loop.assertCurrent()
    timer.unwatch()
    if spareTimers.count < Self.mostSpareTimers, !isClosed { spareTimers.append(timer) } else { timer.close() }
  }

  /// Prepares a request. On the loop.
  ///
  /// `limits.connect` applies while there is no connection. If all connections are busy, a request waits until
  /// `limits.whole`. `limits.firstByte` counts from the end of the request.
  public func call(_ request: UpstreamRequest, limits: UpstreamTimeouts) -> any UpstreamCall {
    UpstreamExchange(request, limits, by: self)
  }

  /// Suspends the task for `duration`, unless it is cancelled first. On the loop.
  public func pause(for duration: Duration) async throws(CancellationError) {
    try await loop.pause(for: duration)
  }

  /// Calls `ring` after `duration`. On the loop; any thread may cancel it.
  public func alarm(after duration: Duration, _ ring: @escaping @Sendable () -> Void) -> any CancellableWork {
    Alarm(at: loop.now.advanced(by: duration), by: self, ring)
  }

  /// Closes the client and its connections. Exchanges in flight fail as cancelled. On any thread.
  public func close() { loop.post { self.shutDown() } }
}

/// A function that is called once, when a borrowed timer ends. The timer keeps it until then.
private final class Alarm: CancellableWork, ChannelDelegate, @unchecked Sendable {
  // Sendable by confinement: on other threads `cancel` only posts to the loop.
  private let client: UpstreamClient
  private var timer: Channel?
  private let ring: @Sendable () -> Void

  init(at deadline: Deadline, by client: UpstreamClient, _ ring: @escaping @Sendable () -> Void) {
    (self.client, self.ring) = (client, ring)
    let timer = client.borrowTimer()
    self.timer = timer
    timer.sleep(until: deadline, self)
  }

  func channel(_ channel: Channel, became readiness: Readiness) {
    end()
    // Otherwise the loop is stopping.
    if readiness == .timedOut { ring() }
  }

  func cancel() {
    if client.loop.isCurrent { end() } else { client.loop.post { self.end() } }
  }

  private func end() { timer.take().map(client.takeBack) }
}

extension UpstreamClient {
  /// The configuration of a client: the address of its upstream, and how to reach it.
  public struct Configuration: Sendable {
    /// The scheme of the upstream.
    public enum Scheme: String, Sendable, CaseIterable {
      /// Cleartext, for tests.
      case http
      case https

      fileprivate var port: UInt16 { self == .https ? 443 : 80 }
    }

    /// The use of HTTP/2.
    public enum HTTP2: String, Sendable, CaseIterable {
      /// If the upstream selects it by ALPN, so never without TLS.
      case alpn
      /// Always, without negotiation (RFC 9113 §3.3). Over TLS the client offers no other protocol.
      case priorKnowledge
      case never
    }

    /// The scheme of the upstream.
    public var scheme: Scheme
    /// The host name, or the IP address without brackets.
    public var host: String
    /// The port.
    public var port: UInt16
    /// The trusted authorities. Without them, no request can be sent over `https`.
    public var tls: TLSClientContext?
    /// The proxy that tunnels connections. Nil for direct connections.
    public var proxy: UpstreamProxy?
    /// The use of HTTP/2.
    public var http2 = HTTP2.alpn
    /// The limits of the client.
    public var limits = UpstreamLimits()
    /// The memory budget for connections and unread content.
    public var memory = MemoryBudget.unlimited()
    /// The name lookup. Nil for the system's resolver.
    public var lookUp: NameResolver.LookUp?

    /// Creates a configuration with defaults for everything else.
    /// - Parameter port: The port. Nil for the default port of the scheme.
    public init(
      _ scheme: Scheme, host: String, port: UInt16? = nil, tls: TLSClientContext? = nil, proxy: UpstreamProxy? = nil
    ) {
      (self.scheme, self.host, self.port) = (scheme, host, port ?? scheme.port)
      (self.tls, self.proxy) = (tls, proxy)
    }

    /// The value of Host and `:authority`, without the default port of the scheme (RFC 9110 §4.2.3).
    var authority: String { port == scheme.port ? bracketedHost : endpoint }

    /// Host and port, always both.
    var endpoint: String { "\(bracketedHost):\(port)" }

    private var bracketedHost: String { host.contains(":") ? "[\(host)]" : host }

    /// Whether the upstream will speak HTTP/2. Nil if only the TLS handshake can show it.
    fileprivate var presumedHTTP2: Bool? {
      switch (http2, scheme) {
      case (.priorKnowledge, _): true
      case (.never, _), (.alpn, .http): false
      case (.alpn, .https): nil
      }
    }

    /// The ALPN names to offer (RFC 7301), in order of preference.
    var applicationProtocols: [String] {
      switch http2 {
      case .alpn: ["h2", "http/1.1"]
      case .priorKnowledge: ["h2"]
      case .never: ["http/1.1"]
      }
    }
  }
}

/// The totals and present numbers of an upstream client, for metrics.
public struct UpstreamCounters: Sendable, Equatable {
  // Totals.

  /// Connections that were opened, TLS handshake included.
  public var connectionsOpened = 0
  /// Attempts at a connection that failed.
  public var connectionsFailed = 0
  /// TLS handshakes that resumed an earlier session with a ticket.
  public var handshakesResumed = 0
  /// Requests that were assigned to a connection.
  public var requestsSent = 0
  /// Requests on a connection that had already carried another request.
  public var requestsOnReusedConnection = 0
  /// The number of times that an HTTP/1.1 connection received bytes that answer no request.
  public var unsolicitedResponses = 0

  // Present numbers.

  /// Connections that are open.
  public var connectionsOpen = 0
  /// Requests in flight on a connection. In HTTP/2, open streams.
  public var requestsOpen = 0
  /// Requests that wait for a connection or a free stream.
  public var requestsWaiting = 0

  /// Creates counters that are all zero.
  public init() {}

  /// Adds the counters of another client.
  public mutating func add(_ other: UpstreamCounters) {
    connectionsOpened += other.connectionsOpened
    connectionsFailed += other.connectionsFailed
    handshakesResumed += other.handshakesResumed
    requestsSent += other.requestsSent
    requestsOnReusedConnection += other.requestsOnReusedConnection
    unsolicitedResponses += other.unsolicitedResponses
    connectionsOpen += other.connectionsOpen
    requestsOpen += other.requestsOpen
    requestsWaiting += other.requestsWaiting
  }
}

/// The limits of an upstream client: name, default, unit and reason. Each limit applies per event loop.
public struct UpstreamLimits: Sendable, Equatable {
  /// The most HTTP/2 connections: 4. Each carries a hundred requests. More are opened only when all are full.
  public var http2Connections = 4

  /// The most HTTP/1.1 connections: 400, for as many requests as the HTTP/2 connections carry. With fewer connections,
  /// requests that a quota would admit wait here.
  public var http1Connections = 400

  /// The most streams on one HTTP/2 connection: 100, even if the peer allows more. Apple's servers allow 100.
  public var concurrentStreams = 100

  /// The time for which an HTTP/1.1 connection stays open without a request: 50 s. Many servers and firewalls close
  /// idle connections after a minute, and a request that crosses the close is lost.
  public var idle = Duration.seconds(50)

  /// The silence after which an idle HTTP/2 connection gets a ping: 30 s. The ping keeps middleboxes awake, and detects
  /// a lost connection before a request does.
  public var pingWhenIdle = Duration.seconds(30)

  /// The same while responses are expected: 2 s. So the client detects a lost peer before callers give up.
  public var pingWhenBusy = Duration.seconds(2)

  /// The time for the answer to a ping, after which the connection is dead: 2.5 s. With the silence before, the total
  /// is less than 5 s, within which the client must recover from a dead connection.
  public var pingAck = Duration.milliseconds(2500)

  /// The time for one attempt at a connection, TLS included: 4 s. An attempt that hangs must not prevent later attempts
  /// from finding that the peer has recovered.
  public var attempt = Duration.seconds(4)

  /// The shortest pause after a failed attempt: 50 ms. It doubles with each further failure. It is also the longest pause
  /// after a connection that broke with its requests.
  public var leastBackOff = Duration.milliseconds(50)

  /// The longest pause after failed attempts: 2 s. Even after an attempt that hung, recovery takes less than 5 s if
  /// attempts fail at once.
  public var longestBackOff = Duration.seconds(2)

  /// The time for which HTTP/1.1 connections carry one request each after unsolicited bytes of the peer: 1 min. With
  /// reuse such a response could reach another caller. A connection for each request costs a round trip or two.
  public var distrust = Duration.seconds(60)

  /// The time for which the peer may read none of what is sent: 10 s.
  public var writeProgress = Duration.seconds(10)

  /// The most unread content of one response, in bytes: 64 KiB. A slow caller makes the client keep this much. The
  /// minimum is 65 535, because of HTTP/2.
  public var bufferedContent = 65_536

  /// The limits for HTTP/1.1 syntax.
  public var http1 = HTTP1Limits()

  /// Creates the default limits.
  public init() {}
}
