import ClientTransport
import DequeModule
package import EventLoop
package import HTTP1
package import HTTPMessages
import Locks
package import Memory
package import TLS

/// The client of one upstream server on one event loop: its connections, and the requests that wait for a connection.
///
/// HTTP/2 requests share few connections; another is opened only when all are full. An HTTP/1.1 connection carries one
/// request at a time. A request is sent once. Requests without a free connection wait in order of arrival. The client
/// and its connections keep each other until `close`, which every owner must call.
///
/// Confined to its loop. Only `init`, `counters` and `close` may be called on any thread.
package final class UpstreamClient: Upstream, @unchecked Sendable {
  // Sendable: all except `tally` is confined to the loop. Tasks run on the loop, and other threads use `post`.
  package let loop: IOLoop
  let configuration: Configuration
  let resolver: NameResolver
  var connections: [any UpstreamConnection] = []
  /// Connections that end after their last exchange in flight.
  var draining: [any UpstreamConnection] = []
  var dialers: [Dialer] = []
  /// The exchanges that wait for a connection, in order of arrival.
  var waiting: Deque<UpstreamExchange> = []
  var backOff: BackOff
  /// Timers that no exchange uses at present.
  var spareTimers: [Channel] = []
  /// Wakes the client when the backoff has ended.
  var backOffAlarm: Alarm?
  /// Whether the upstream speaks HTTP/2. Nil while unknown.
  var speaksHTTP2: Bool?
  /// The error of the last attempt at a connection. Nil if it succeeded.
  var lastFailure: UpstreamError?
  var isClosed = false
  /// The time until which HTTP/1.1 connections close after one response, because the upstream sent an unsolicited one: the
  /// client cannot tell which request a response on a reused connection answers (RFC 9112 §9.2).
  var distrustsReuseUntil: Deadline?
  /// Whether two connections in a row allowed only small header sections, so that the limit is not an exception.
  var hasSmallFieldSections = false
  /// The number of the last HTTP/2 connection. Each client starts at a random number, so that no two share numbers.
  var connectionNumber = UInt64.random(in: 0...UInt64.max)

  /// The client for requests that are too large for HTTP/2 with this upstream. Created on first use.
  var http1: UpstreamClient?
  /// Shared with ``http1``.
  private let tally: Locked<UpstreamCounters>

  /// Creates a client. It opens its first connection for its first request. On any thread.
  package convenience init(_ configuration: Configuration, loop: IOLoop) {
    self.init(configuration, loop: loop, tally: Locked(UpstreamCounters()))
  }

  private init(_ configuration: Configuration, loop: IOLoop, tally: Locked<UpstreamCounters>) {
    (self.configuration, self.loop, self.tally) = (configuration, loop, tally)
    resolver = NameResolver(loop: loop, lookUp: configuration.lookUp)
    backOff = BackOff(least: configuration.limits.leastBackOff, longest: configuration.limits.longestBackOff)
    speaksHTTP2 = configuration.presumedHTTP2
  }

  /// The totals and present numbers of the client. On any thread.
  package var counters: UpstreamCounters { tally.withLock { $0 } }

  func count(_ change: (inout UpstreamCounters) -> Void) { tally.withLock { change(&$0) } }

  /// Returns the client for the same upstream over HTTP/1.1; nil if the upstream must use HTTP/2.
  func overHTTP1() -> UpstreamClient? {
    guard http1 == nil, configuration.http2 == .alpn else { return http1 }
    var configuration = configuration
    configuration.http2 = .never
    http1 = UpstreamClient(configuration, loop: loop, tally: tally)
    return http1
  }

  /// The most spare timers: as many as requests are usually in flight. A queue that was longer does not stay in memory.
  private static let mostSpareTimers = 128

  /// Returns a timer for an exchange or an alarm. Its deadline seldom passes, so another one can use it afterwards.
  func borrowTimer() -> Channel {
    loop.assertCurrent()
    return spareTimers.popLast() ?? loop.openTimer()
  }

  /// Takes back the timer of an exchange or an alarm that has ended.
  func takeBack(_ timer: Channel) {
    timer.unwatch()
    if spareTimers.count < Self.mostSpareTimers, !isClosed { spareTimers.append(timer) } else { timer.close() }
  }

  /// Prepares a request. `limits.connect` applies while there is no connection. If all connections are busy, a request
  /// waits until `limits.whole`. `limits.firstByte` counts from the end of the request.
  package func call(_ request: UpstreamRequest, limits: UpstreamTimeouts) -> any UpstreamCall {
    UpstreamExchange(request, limits, by: self)
  }

  package func pause(for duration: Duration) async throws(CancellationError) { try await loop.pause(for: duration) }

  package func alarm(after duration: Duration, _ ring: @escaping @Sendable () -> Void) -> any CancellableWork {
    Alarm(at: loop.now.advanced(by: duration), by: self, ring)
  }

  /// Closes the client and its connections. Exchanges in flight fail as cancelled. On any thread.
  package func close() { loop.post { self.shutDown() } }
}

/// A function that is called once, when a borrowed timer ends. The timer keeps it until then.
final class Alarm: CancellableWork, ChannelDelegate, @unchecked Sendable {
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
  package struct Configuration: Sendable {
    package enum Scheme: String, Sendable, CaseIterable {
      /// Cleartext, for tests.
      case http
      case https

      fileprivate var port: UInt16 { self == .https ? 443 : 80 }
    }

    package enum HTTP2: String, Sendable, CaseIterable {
      /// If the upstream selects it by ALPN, so never without TLS.
      case alpn
      /// Always, without negotiation (RFC 9113 §3.3). Over TLS the client offers no other protocol.
      case priorKnowledge
      case never
    }

    package var scheme: Scheme
    /// The host name, or the IP address without brackets.
    package var host: String
    package var port: UInt16
    /// The trusted authorities. Without them, no request can be sent over `https`.
    package var tls: TLSClientContext?
    /// The proxy that tunnels connections. Nil for direct connections.
    package var proxy: UpstreamProxy?
    package var http2 = HTTP2.alpn
    package var limits = UpstreamLimits()
    /// The memory budget for connections and unread content.
    package var memory = MemoryBudget.unlimited()
    /// The name lookup. Nil for the system's resolver.
    package var lookUp: NameResolver.LookUp?

    /// Creates a configuration, by default with the default port of the scheme.
    package init(
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
      if http2 == .alpn, scheme == .https { return nil }
      return http2 == .priorKnowledge
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
package struct UpstreamCounters: Sendable, Equatable {
  // Totals.
  /// Connections that were opened, TLS handshake included.
  package var connectionsOpened = 0
  package var connectionsFailed = 0
  /// TLS handshakes that resumed an earlier session with a ticket.
  package var handshakesResumed = 0
  /// Requests that were assigned to a connection.
  package var requestsSent = 0
  /// Requests on a connection that had already carried another request.
  package var requestsOnReusedConnection = 0
  /// The number of times that an HTTP/1.1 connection received bytes that answer no request.
  package var unsolicitedResponses = 0

  // Present numbers.
  package var connectionsOpen = 0
  /// Requests in flight on a connection. In HTTP/2, open streams.
  package var requestsOpen = 0
  /// Requests that wait for a connection or a free stream.
  package var requestsWaiting = 0

  package init() {}

  package mutating func add(_ other: UpstreamCounters) {
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
package struct UpstreamLimits: Sendable, Equatable {
  /// The most HTTP/2 connections: 4. Each carries a hundred requests. More are opened only when all are full.
  package var http2Connections = 4
  /// The most HTTP/1.1 connections: 400, for as many requests as HTTP/2 carries. Others wait here, despite their quota.
  package var http1Connections = 400
  /// The most streams on one HTTP/2 connection: 100, even if the peer allows more. Apple's servers allow 100.
  package var concurrentStreams = 100
  /// The time for which an HTTP/1.1 connection stays open without a request: 50 s. Many servers and firewalls close
  /// idle connections after a minute, and a request that crosses the close is lost.
  package var idle = Duration.seconds(50)
  /// The silence after which an idle HTTP/2 connection gets a ping: 30 s. It keeps middleboxes awake, and finds a loss.
  package var pingWhenIdle = Duration.seconds(30)
  /// The same while responses are expected: 2 s. So the client detects a lost peer before callers give up.
  package var pingWhenBusy = Duration.seconds(2)
  /// The time for the answer to a ping, after which the connection is dead: 2.5 s. With the silence before, the total
  /// is less than 5 s, within which the client must recover from a dead connection.
  package var pingAck = Duration.milliseconds(2500)
  /// The time for one attempt at a connection with TLS: 4 s. One that hangs must not hide that the peer has recovered.
  package var attempt = Duration.seconds(4)
  /// The shortest pause after a failed attempt, and the longest after a broken connection: 50 ms. It doubles each time.
  package var leastBackOff = Duration.milliseconds(50)
  /// The longest pause after failed attempts: 2 s. Even after an attempt that hung, recovery takes less than 5 s.
  package var longestBackOff = Duration.seconds(2)
  /// The time for which HTTP/1.1 connections carry one request each after unsolicited bytes of the peer: 1 min. With
  /// reuse such a response could reach another caller. A connection for each request costs a round trip or two.
  package var distrust = Duration.seconds(60)
  /// The time for which the peer may read none of what is sent: 10 s.
  package var writeProgress = Duration.seconds(10)
  /// The most unread content of a response in bytes, kept for a slow caller: 64 KiB, and at least 65 535.
  package var bufferedContent = 65_536
  /// The limits for HTTP/1.1 syntax.
  package var http1 = HTTP1Limits()

  package init() {}
}
