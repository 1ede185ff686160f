/// How the descriptors that a process may have open are divided: a connection that cannot be accepted hangs, and one that
/// is over its limit gets 503.
struct DescriptorBudget {
  /// Connections that callers may have.
  let connections: Int
  /// Connections that each loop may have to the catalog's upstream.
  let upstreamPerLoop: Int

  /// Standard streams, audit file, and what is open for a moment: settings, keys, name look-ups, connections to identity
  /// providers.
  private static let files = 32
  /// Connections to the admin listener.
  static let adminConnections = 64
  /// For each loop: the poller, both ends of the pipe that wakes it, and a listener for IPv4 and IPv6, public and admin.
  private static let perLoop = 7
  /// The most that a loop has to the upstream (`UpstreamLimits.http1Connections`).
  private static let mostUpstreamPerLoop = 32

  /// Divides `openFiles`. With too few for so many loops, nothing is left for callers: `connections` is 0 or less.
  init(openFiles: Int, loops: Int) {
    let left = openFiles - Self.files - Self.adminConnections - loops * Self.perLoop
    upstreamPerLoop = min(Self.mostUpstreamPerLoop, max(1, left / 4 / loops))
    connections = left - loops * upstreamPerLoop
  }

  /// The most loops that leave something for callers; at least 1.
  static func mostLoops(openFiles: Int) -> Int {
    max(1, (openFiles - files - adminConnections - 1) / (perLoop + 1))
  }
}
