/// What the server lacks when it refuses a connection or a request that it would serve at another time.
public enum Shortage: Int, Sendable, CaseIterable {
  /// Connections, by `server.limits.connections`.
  case connections
  /// Connections of one address, by `server.limits.connectionsPerAddress`.
  case connectionsOfAddress
  /// Memory, by `server.limits.memory`.
  case memory
  /// Room in the queue of requests for Apple.
  case queue
  /// Time: the request's turn at Apple did not come before its deadline.
  case queueTime
  /// Connections to Apple.
  case upstreamConnections
  /// Successful responses of Apple: the circuit is open.
  case circuit
  /// A developer token for the catalog.
  case developerToken
  /// The keys of an identity provider.
  case providerKeys
  /// Time to serve the request before the end of the process.
  case draining
}
