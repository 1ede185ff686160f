public import HTTP1

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
