/// Every bound on what a client may make the server hold, read or wait for.
///
/// ``table`` lists them with their bounds and reasons.
public struct Limits: Sendable, Equatable {
  /// Open connections in all; set lower where the system allows fewer descriptors.
  public var connections = 10_000
  /// Open connections from one address, trusted proxies excepted.
  public var connectionsPerAddress = 4096
  /// From accepting a connection to the end of its TLS handshake.
  public var tlsHandshake = Duration.seconds(10)
  /// From a request's first byte to the end of its header section.
  public var headerSection = Duration.seconds(10)
  /// Between two bytes of a request's body.
  public var bodyProgress = Duration.seconds(30)
  /// Between two bytes that the client takes of a response.
  public var writeProgress = Duration.seconds(30)
  /// From the end of a response to the first byte of the next request.
  public var idle = Duration.seconds(75)
  /// The request line in bytes, line end included.
  public var requestLine = 8 << 10
  /// The header section in bytes.
  public var headerBytes = 32 << 10
  /// Field lines in a header or trailer section.
  public var fieldLines = 100
  /// A body in bytes, of the requests that take one.
  public var bodyBytes = 16 << 10
  /// How much of a body that nobody wants is read for the sake of keeping the connection, in bytes.
  public var unreadBody = 64 << 10
  /// The chunk extensions of one body in bytes.
  public var chunkExtensions = 4 << 10

  /// Every limit at its default.
  public init() {}
}
