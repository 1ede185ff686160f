public import EventLoop
public import HTTP1
public import HTTPMessages
import Locks
public import Memory
public import TLS

/// The client of one upstream server on one event loop: its connections, and the requests that wait for a connection.
///
/// HTTP/2 requests share few connections, each with as many streams as the peer allows. The client opens another
/// connection only when all are full. Each HTTP/1.1 request has a connection of its own, which is kept for the next
/// request. A request is sent once. Requests that find no room wait in order of arrival.
///
/// Confined to its loop. Only `init`, `counters` and `close` may be called on any thread.
public final class UpstreamClient: Upstream, @unchecked Sendable {
  // Sendable: all but `shared` is confined to the loop: its tasks run on the loop, and other threads reach it by `post`.

  /// The loop that it belongs to.
  public let loop: IOLoop
  let configuration: Configuration

  let resolver: NameResolver
  var connections: [any UpstreamConnection] = []
  /// Connections that end when what they carry has.
  var draining: [any UpstreamConnection] = []
  var dialers: [ObjectIdentifier: Dialer] = [:]
  var waiting = WaitingList<UpstreamExchange>()
  var backOff: BackOff
  /// Wakes the client when the back-off is over.
  var backOffTimer: Channel?
  /// Whether the upstream speaks HTTP/2; nil while unknown.
  var speaksHTTP2: Bool?
  /// Why the last attempt at a connection failed; nil if it did not.
  var lastFailure: UpstreamError?
  var isClosed = false
  /// Until when HTTP/1.1 connections are closed behind their response, because the upstream sent what no request asked
  /// for: which request a response on a kept connection answers cannot be told then (RFC 9112 §9.2).
  var distrustsReuseUntil: Deadline?
  /// Whether two connections in a row were for too small header sections: the peer means it.
  var hasSmallFieldSections = false
  /// Of the last HTTP/2 connection. Each client begins somewhere else, so that no two share a number.
  var connectionNumber = UInt64.random(in: 0...UInt64.max)

  /// What other threads may read.
  private struct Shared {
    var tally = UpstreamCounters()
    /// The client for requests that are too large for HTTP/2 with this upstream; made when there is one.
    var http1: UpstreamClient?
  }

  private let shared = Locked(Shared())

  /// A client that opens its first connection for its first request. On any thread.
  public init(_ configuration: Configuration, loop: IOLoop) {
    self.configuration = configuration
    self.loop = loop
    resolver =
      configuration.lookUp.map { NameResolver(loop: loop, lookUp: $0) } ?? NameResolver(loop: loop)
    backOff = BackOff(least: configuration.limits.leastBackOff, longest: configuration.limits.longestBackOff)
    speaksHTTP2 = configuration.presumedHTTP2
  }

  /// What it has done and has under way. On any thread.
  public var counters: UpstreamCounters {
    let (own, other) = shared.withLock { ($0.tally, $0.http1) }
    guard let other else { return own }
    var sum = own
    sum.add(other.counters)
    return sum
  }

  /// The client that speaks HTTP/1.1 with the same upstream. On the loop.
  /// - Parameter isWanted: Whether to make the client if it does not exist.
  func overHTTP1(isWanted: Bool) -> UpstreamClient? {
    if let client = shared.withLock({ $0.http1 }) { return client }
    guard isWanted, configuration.http2 == .alpn else { return nil }
    var configuration = configuration
    configuration.http2 = .never
    let client = UpstreamClient(configuration, loop: loop)
    shared.withLock { $0.http1 = client }
    return client
  }

  func count(_ change: (inout UpstreamCounters) -> Void) {
    shared.withLock { change(&$0.tally) }
  }

  // MARK: Upstream

  /// Sends one request, once, and returns when the head of the final response has come. On the loop.
  ///
  /// `limits.connect` is for requests for which there is no connection; those that wait for connections which are all
  /// busy have `limits.whole`. `limits.firstByte` counts from the end of the request.
  /// - Throws: `UpstreamError`, also when the task is cancelled.
  public func send(
    _ request: UpstreamRequest, limits: UpstreamTimeouts
  ) async throws(UpstreamError) -> UpstreamResponse {
    guard !isClosed else { throw UpstreamError(.cancelled, .unprocessed, "The client was closed.") }
    let exchange = UpstreamExchange(request, limits, memory: configuration.memory, loop: loop)
    let result = await withTaskCancellationHandler {
      await unsafe withUnsafeContinuation { waiter in
        unsafe exchange.start(waiter)
        submit(exchange)
      }
    } onCancel: {
      // On any thread, perhaps before the exchange has begun: the loop comes to it when this task waits.
      loop.post { exchange.cancel() }
    }
    return try result.get()
  }

  /// Lets time pass. On the loop.
  /// - Throws: When the task is cancelled first.
  public func pause(for duration: Duration) async throws(CancellationError) {
    let timer = loop.openTimer()
    defer { timer.close() }
    let readiness = await withTaskCancellationHandler {
      await timer.pause(until: loop.now.advanced(by: duration))
    } onCancel: {
      loop.post { timer.cancel() }
    }
    guard readiness == .timedOut, !Task.isCancelled else { throw CancellationError() }
  }

  /// Ends everything: connections close, and exchanges under way fail as cancelled. On any thread.
  public func close() {
    loop.post { self.shutDown() }
  }
}

extension UpstreamClient.Configuration {
  /// Whether the upstream will speak HTTP/2; nil if only the TLS handshake can tell.
  fileprivate var presumedHTTP2: Bool? {
    switch (http2, scheme) {
    case (.priorKnowledge, _): true
    case (.never, _), (.alpn, .http): false
    case (.alpn, .https): nil
    }
  }
}

extension UpstreamClient {
  /// What a client is made with: where its upstream is, and how it is reached.
  public struct Configuration: Sendable {
    /// How the upstream is spoken to.
    public enum Scheme: String, Sendable, CaseIterable {
      /// In clear: for tests.
      case http
      /// Over TLS.
      case https
    }

    /// When HTTP/2 is spoken.
    public enum HTTP2: String, Sendable, CaseIterable {
      /// If the upstream chooses it by ALPN; so never without TLS.
      case alpn
      /// Always, without asking (RFC 9113 §3.3); over TLS it is the only protocol offered.
      case priorKnowledge
      /// Never.
      case never
    }

    /// How the upstream is spoken to.
    public var scheme: Scheme
    /// Its name, or its IP address without brackets.
    public var host: String
    /// Its port.
    public var port: UInt16
    /// Whom to trust. Without it, nothing can be sent over `https`.
    public var tls: TLSClientContext?
    /// The proxy through which connections are tunnelled; nil for none.
    public var proxy: UpstreamProxy?
    /// When HTTP/2 is spoken.
    public var http2 = HTTP2.alpn
    /// The bounds.
    public var limits = UpstreamLimits()
    /// What is charged for connections, and for unread content.
    public var memory = MemoryBudget.unlimited()
    /// How names are looked up; nil for the system's way.
    public var lookUp: NameResolver.LookUp?

    /// A configuration with the defaults for everything else.
    /// - Parameter port: nil for the scheme's.
    public init(
      _ scheme: Scheme, host: String, port: UInt16? = nil, tls: TLSClientContext? = nil, proxy: UpstreamProxy? = nil
    ) {
      self.scheme = scheme
      self.host = host
      self.port = port ?? scheme.port
      self.tls = tls
      self.proxy = proxy
    }

    /// The value of Host and `:authority`: without the port if it is the scheme's (RFC 9110 §4.2.3).
    var authority: String { port == scheme.port ? bracketedHost : endpoint }

    /// Host and port, always both.
    var endpoint: String { "\(bracketedHost):\(port)" }

    private var bracketedHost: String { host.contains(":") ? "[\(host)]" : host }

    /// The ALPN names to offer (RFC 7301), best first.
    var applicationProtocols: [String] {
      switch http2 {
      case .alpn: ["h2", "http/1.1"]
      case .priorKnowledge: ["h2"]
      case .never: ["http/1.1"]
      }
    }
  }
}

extension UpstreamClient.Configuration.Scheme {
  fileprivate var port: UInt16 { self == .https ? 443 : 80 }
}

/// What an upstream client has done and has under way, for metrics.
public struct UpstreamCounters: Sendable, Equatable {
  // Totals.

  /// Connections that were made, TLS included.
  public var connectionsOpened = 0
  /// Attempts at a connection that came to nothing.
  public var connectionsFailed = 0
  /// TLS handshakes that a ticket of an earlier session shortened.
  public var handshakesResumed = 0
  /// Requests that were handed to a connection.
  public var requestsSent = 0
  /// Of those, the ones whose connection had carried another before.
  public var requestsOnReusedConnection = 0
  /// Times that an HTTP/1.1 connection brought bytes that answer no request.
  public var unsolicitedResponses = 0

  // Present numbers.

  /// Connections that are open.
  public var connectionsOpen = 0
  /// Requests that a connection carries: HTTP/2's open streams.
  public var requestsOpen = 0
  /// Requests that wait for a connection or a free stream.
  public var requestsWaiting = 0

  /// All zero.
  public init() {}

  /// Adds those of another client.
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

/// Every limit of an upstream client: name, default, unit and reason. Each limit applies per event loop.
public struct UpstreamLimits: Sendable, Equatable {
  /// HTTP/2 connections at once: 4. One carries a hundred requests; more are opened only when all are full.
  public var http2Connections = 4

  /// HTTP/1.1 connections at once: 256. One carries one request, so with responses after 0.4 s these are 640 requests a
  /// second. With fewer, requests that a quota would admit wait here.
  public var http1Connections = 256

  /// Streams at once on one HTTP/2 connection: 100, should the peer allow more. Apple's allow as many.
  public var concurrentStreams = 100

  /// How long an HTTP/1.1 connection is kept without a request: 50 s. Less than the minute after which many servers and
  /// firewalls give up an idle one: a request that crosses its end is lost.
  public var idle = Duration.seconds(50)

  /// How long an HTTP/2 connection may be silent, without a request, until it is asked for a sign of life: 30 s. Keeps
  /// what is between awake, and notices an end before a request does.
  public var pingWhenIdle = Duration.seconds(30)

  /// The same while responses are awaited: 2 s. A peer that is gone without a word is found out before callers give up.
  public var pingWhenBusy = Duration.seconds(2)

  /// How long the sign of life may take until the connection is taken for dead: 2.5 s. With the silence before it, less
  /// than the 5 s within which a dead connection has to be got over.
  public var pingAck = Duration.milliseconds(2500)

  /// How long one attempt at a connection may take, TLS included: 4 s. One that hangs must not keep later ones from
  /// finding the peer well again.
  public var attempt = Duration.seconds(4)

  /// The least pause after an attempt that failed: 50 ms. Doubled at each further failure.
  public var leastBackOff = Duration.milliseconds(50)

  /// The longest pause after attempts that failed: 2 s. With an attempt that hangs beforehand, still a recovery of less
  /// than 5 s for those that fail at once.
  public var longestBackOff = Duration.seconds(2)

  /// How long HTTP/1.1 connections carry one request each after the peer has sent bytes that answer none: 1 min. Reuse
  /// would let such a response reach another caller; a connection for each request costs a round trip or two.
  public var distrust = Duration.seconds(60)

  /// How long the peer may take none of what is sent to it: 10 s.
  public var writeProgress = Duration.seconds(10)

  /// Content of one response that is received before the caller reads it, in bytes: 64 KiB. A caller that reads slowly
  /// makes the client keep this much. At least 65 535: HTTP/2 cannot go below that.
  public var bufferedContent = 65_536

  /// Bounds of HTTP/1.1's syntax.
  public var http1 = HTTP1Limits()

  /// The defaults.
  public init() {}
}
