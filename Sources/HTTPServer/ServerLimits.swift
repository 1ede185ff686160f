public import HTTP1

/// The limits of the server, with their defaults and units. The reasons for those that are settings are in the table that
/// the settings' documents come from (`ServerSettings`).
public struct ServerLimits: Sendable, Equatable {
  /// Maximum of open connections in total.
  public var connections = 10_000
  /// Maximum of bytes that peers and the upstream may make the server hold, see `MemoryBudget`.
  public var memory = 512 << 20
  /// Maximum of open connections from one IPv4 address or IPv6 /64.
  public var connectionsPerAddress = 4_096

  /// Time from the accepted connection to the end of the PROXY header and the TLS handshake.
  public var tlsHandshake = Duration.seconds(10)
  /// Time for a whole header section from its first byte.
  public var headerSection = Duration.seconds(10)
  /// Time without progress in the body of a request.
  public var bodyProgress = Duration.seconds(30)
  /// Time for the whole body of a request.
  public var body = Duration.seconds(120)
  /// Time without progress in writing a response.
  public var writeProgress = Duration.seconds(30)
  /// Time for a handler that waits, until its response or the next part of it. It is longer than the handlers' own
  /// timeouts, which have more specific errors.
  public var work = Duration.seconds(120)
  /// Time for a handler to end after it was cancelled. Then its connection is closed.
  public var cancelledWork = Duration.seconds(10)
  /// Time between two requests of a connection, and before the first request.
  public var idle = Duration.seconds(75)
  /// Time for the peer to close its side after a refusal, so that the refusal reaches it (RFC 9112 §9.6).
  public var linger = Duration.seconds(2)

  /// Wait up to which expensive work, a TLS handshake or a request that waits for an upstream, counts as prompt. It is
  /// shorter than the wait for Apple's response.
  public var promptWork = Duration.milliseconds(100)
  /// Longest wait of such work when more arrives than the server can do. A longer wait serves no more, and the response
  /// of Apple comes on top of it. Cheap work, such as health checks, does not wait behind such work.
  public var lateWork = Duration.milliseconds(150)
  /// Time for which events may wait for the loop while it begins expensive work: some turns of a busy loop.
  public var promptTurn = Duration.milliseconds(20)
  /// Time for which such work may be late before the server refuses some.
  public var burst = Duration.seconds(1)

  /// Maximum of body bytes that a route reads.
  public var bodyBytes = 16_384
  /// Maximum of unread body bytes that are read to keep the connection.
  public var unreadBody = 65_536
  /// Maximum of bytes that are discarded after a refusal before the connection is closed.
  public var lingerBytes = 1_048_576
  /// Maximum of bytes per read, and the size of the buffers that a loop lends.
  public var receiveBuffer = 16_384
  /// Maximum of response bytes collected before a write. Pipelined requests cost one write, and a client that never
  /// reads makes the server hold no more than this and one response.
  public var sendBuffer = 65_536

  /// The limits of the HTTP/1.1 codec.
  public var http1 = HTTP1Limits()

  /// Creates the default limits.
  public init() {}
}

/// The limits, shared by all connections of a loop, because a copy would be a quarter of each connection's memory.
final class SharedLimits: Sendable {
  let values: ServerLimits

  init(_ values: ServerLimits) { self.values = values }
}
