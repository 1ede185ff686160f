/// How the descriptors that a process may have open are divided: a connection that cannot be accepted hangs, and one that
/// is over its limit gets 503.
struct DescriptorBudget {
  /// Connections that callers may have.
  let connections: Int
  /// Connections to the admin listener.
  let adminConnections: Int
  /// Connections that each loop may have to the catalog's upstream.
  let upstreamPerLoop: Int

  /// Standard streams, audit file, Dispatch's own, and what is open for a moment: settings, keys, name look-ups,
  /// connections to identity providers, connections that get 503.
  private static let files = 32
  /// For each loop: the poller, both ends of the pipe that wakes it, and a listener for IPv4 and IPv6, public and admin.
  private static let perLoop = 7
  /// Connections of callers and to the admin listener without which it is not worth a start.
  private static let leastConnections = 16
  /// What probes and scrapes need.
  private static let mostAdminConnections = 64
  /// The most that a loop has to the upstream (`UpstreamLimits.http1Connections`).
  private static let mostUpstreamPerLoop = 32

  /// Divides `openFiles`. With fewer than `least(loops:)`, nothing is left for callers: `connections` is 0 or less.
  init(openFiles: Int, loops: Int) {
    let spare = openFiles - Self.least(loops: loops) + Self.leastConnections
    adminConnections = min(Self.mostAdminConnections, max(1, spare / 2))
    // One connection to the upstream for each loop is among what is least.
    let left = spare - adminConnections + loops
    upstreamPerLoop = min(Self.mostUpstreamPerLoop, max(1, left / 4 / loops))
    connections = left - loops * upstreamPerLoop
  }

  /// The fewest descriptors with which so many loops serve.
  static func least(loops: Int) -> Int { files + loops * (perLoop + 1) + leastConnections }

  /// The most loops for which `openFiles` descriptors suffice; 0 or less if they are too few for a single loop.
  static func mostLoops(openFiles: Int) -> Int { (openFiles - least(loops: 0)) / (perLoop + 1) }

  /// What the system must do for a process that has too few.
  static let remedy = "raise the limit of descriptors (ulimit -n, LimitNOFILE)"
}
