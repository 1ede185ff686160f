public import HTTP1

/// Every bound of the server, in one place: what it is, its default, its unit and its reason.
public struct ServerLimits: Sendable, Equatable {
  /// Connections open at once, in all. Each may hold a descriptor, a receive buffer and a TLS session.
  public var connections = 10_000
  /// Bytes that peers and the upstream may make the server hold, see `MemoryBudget`. The response cache has a limit of its
  /// own.
  public var memory = 512 << 20
  /// Connections open at once from one IPv4 address or IPv6 /64. High, because many users may stand behind one (NAT).
  public var connectionsPerAddress = 4_096

  /// Time for what comes before the first request, PROXY header and TLS handshake, from the accepted connection on.
  public var tlsHandshake = Duration.seconds(10)
  /// Time for a header section in all, from its first byte on: not per byte, or a client could drip for ever.
  public var headerSection = Duration.seconds(10)
  /// Time without progress in the body of a request.
  public var bodyProgress = Duration.seconds(30)
  /// Time for the body of a request in all: a client that drips makes progress, but is not served for ever.
  public var body = Duration.seconds(120)
  /// Time without progress in writing a response: a client that never reads.
  public var writeProgress = Duration.seconds(30)
  /// Time for a handler that waits, until its answer or the next part of it: an upstream that never answers must not hold
  /// a caller's connection. Longer than any timeout that handlers have themselves, which say more.
  public var work = Duration.seconds(120)
  /// Time for a handler to end after it was cancelled; then its connection closes under it.
  public var cancelledWork = Duration.seconds(10)
  /// Time between two requests of a connection, and before the first one.
  public var idle = Duration.seconds(75)
  /// Time for the peer to close its side after a refusal, so that the refusal reaches it (RFC 9112 §9.6).
  public var linger = Duration.seconds(2)

  /// Bytes of a body that a route reads; with more the request is refused with 413.
  public var bodyBytes = 16_384
  /// Bytes of an unread body that are consumed to keep the connection; with more it closes.
  public var unreadBody = 65_536
  /// Bytes that are discarded after a refusal before the connection is cut.
  public var lingerBytes = 1_048_576
  /// Bytes read in one go, and the size of the buffers that a loop lends.
  public var receiveBuffer = 16_384
  /// Bytes of responses gathered before they are written: pipelined requests cost one write, and a client that never
  /// reads makes the server hold no more than this and one response.
  public var sendBuffer = 65_536

  /// The bounds of the HTTP/1.1 codec.
  public var http1 = HTTP1Limits()

  /// The defaults.
  public init() {}
}
