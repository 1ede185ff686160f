package import HTTP1

/// The limits of the server, with their defaults and units. `ServerSettings` has the reasons for those that are settings.
package struct ServerLimits: Sendable, Equatable {
  /// Maximum of open connections in total.
  package var connections = 10_000
  /// Maximum of bytes that peers and the upstream may make the server hold, see `MemoryBudget`.
  package var memory = 512 << 20
  /// Maximum of open connections from one IPv4 address or IPv6 /64.
  package var connectionsPerAddress = 4_096

  /// Time from the accepted connection to the end of the PROXY header and the TLS handshake.
  package var tlsHandshake = Duration.seconds(10)
  /// Time for a whole header section from its first byte.
  package var headerSection = Duration.seconds(10)
  /// Time without progress in the body of a request.
  package var bodyProgress = Duration.seconds(30)
  /// Time for the whole body of a request.
  package var body = Duration.seconds(120)
  /// Time without progress in writing a response.
  package var writeProgress = Duration.seconds(30)
  /// Time for a handler until its response or the next part of it. The handlers' own, shorter timeouts say more.
  package var work = Duration.seconds(120)
  /// Time for a handler to end after it was cancelled. Then its connection is closed.
  package var cancelledWork = Duration.seconds(10)
  /// Time between two requests of a connection, and before the first request.
  package var idle = Duration.seconds(75)
  /// Time for the peer to close its side after a refusal, so that the refusal reaches it (RFC 9112 §9.6).
  package var linger = Duration.seconds(2)

  /// Wait up to which a TLS handshake or a request for an upstream counts as prompt: less than Apple's response takes.
  package var promptWork = Duration.milliseconds(100)
  /// Longest wait of such work under overload: a longer one serves no more, and Apple's response comes on top of it.
  package var lateWork = Duration.milliseconds(150)
  /// Time for which events may wait for the loop while it begins expensive work: some turns of a busy loop.
  package var promptTurn = Duration.milliseconds(20)
  /// Time for which such work may be late before the server refuses some.
  package var burst = Duration.seconds(1)

  /// Maximum of body bytes that a route reads.
  package var bodyBytes = 16_384
  /// Maximum of unread body bytes that are read to keep the connection.
  package var unreadBody = 65_536
  /// Maximum of bytes that are discarded after a refusal before the connection is closed.
  package var lingerBytes = 1_048_576
  /// Maximum of bytes per read, and the size of the buffers that a loop lends.
  package var receiveBuffer = 16_384
  /// Maximum of response bytes collected before a write. A client that never reads holds this and one response.
  package var sendBuffer = 65_536

  package var http1 = HTTP1Limits()

  package init() {}
}

/// The limits, shared by all connections of a loop, because a copy would be a quarter of each connection's memory.
final class SharedLimits: Sendable {
  let values: ServerLimits

  init(_ values: ServerLimits) { self.values = values }
}
