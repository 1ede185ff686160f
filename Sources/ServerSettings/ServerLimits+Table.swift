import HTTP1
public import HTTPServer

extension ServerLimits {
  /// One row of the table of limits.
  public struct Row: Sendable {
    /// How a limit is counted, and where in ``ServerLimits`` it is.
    public enum Unit: Sendable {
      /// Things.
      case count(any WritableKeyPath<ServerLimits, Int> & Sendable)
      /// Bytes, written as a size.
      case bytes(any WritableKeyPath<ServerLimits, Int> & Sendable)
      /// Time, in whole seconds, written as a duration.
      case time(any WritableKeyPath<ServerLimits, Duration> & Sendable)
    }

    /// The last component of its path, `server.limits.NAME`.
    public let name: String
    /// Its unit and place.
    public let unit: Unit
    /// The least and the most that may be written, in things, bytes or seconds.
    public let range: ClosedRange<Int>
    /// Why there is such a limit, and why the default.
    public let reason: String
  }

  /// Every limit.
  public static let table: [Row] = [
    Row(
      name: "memory", unit: .bytes(\.memory), range: (8 << 20)...(1 << 40),
      reason: "What peers and the upstream can make the server hold, the cache aside. Half of the cgroup's limit, "
        + "if there is one. Beyond it the newest and greediest get 503."),
    Row(
      name: "connections", unit: .count(\.connections), range: 1...1_000_000,
      reason: "Each open connection holds a descriptor and some memory. Less if the system's descriptor limit is."),
    Row(
      name: "connectionsPerAddress", unit: .count(\.connectionsPerAddress), range: 1...1_000_000,
      reason: "One client must not take every connection; a NAT or an ingress rightly has thousands."),
    Row(
      name: "tlsHandshake", unit: .time(\.tlsHandshake), range: 1...300,
      reason: "Two round trips; a client that takes longer holds a TLS session for nothing. Ends with an alert."),
    Row(
      name: "headerSection", unit: .time(\.headerSection), range: 1...300,
      reason: "For the whole section, not for each byte, so that dripping bytes (Slowloris) does not help."),
    Row(
      name: "bodyProgress", unit: .time(\.bodyProgress), range: 1...3600,
      reason: "A body may be slow but not stuck."),
    Row(
      name: "body", unit: .time(\.body), range: 1...3600,
      reason: "For the whole body: dripping bytes is progress, but not for ever."),
    Row(
      name: "writeProgress", unit: .time(\.writeProgress), range: 1...3600,
      reason: "A client that never reads must not hold its response for ever."),
    Row(
      name: "idle", unit: .time(\.idle), range: 1...86_400,
      reason: "Longer than the 60 s for which common load balancers keep a connection, so that they close first."),
    Row(
      name: "requestLine", unit: .bytes(\.http1.requestLine), range: 256...65_536,
      reason: "RFC 9112 §3 asks for 8000 bytes at least. Answered with 414."),
    Row(
      name: "headerBytes", unit: .bytes(\.http1.headerSection), range: 1024...1_048_576,
      reason: "Held until the request is complete. Answered with 431."),
    Row(
      name: "fieldLines", unit: .count(\.http1.fieldLines), range: 8...1000,
      reason: "Every field line costs work beyond its bytes. Answered with 431."),
    Row(
      name: "bodyBytes", unit: .bytes(\.bodyBytes), range: 256...1_048_576,
      reason: "A request for a token is a small JSON object. Answered with 413."),
    Row(
      name: "unreadBody", unit: .bytes(\.unreadBody), range: 0...1_048_576,
      reason: "Reading a little unwanted content is cheaper than a new connection; reading a lot is not."),
    Row(
      name: "chunkExtensions", unit: .bytes(\.http1.chunkExtensions), range: 0...65_536,
      reason: "No one uses them, and without a limit they are bytes that cost the sender nothing (CVE-2023-39326)."),
  ]
}

extension ServerLimits.Row {
  /// The setting's path.
  var path: String { "server.limits.\(name)" }

  /// What is known of it as a setting.
  var known: KnownSetting {
    let defaults = ServerLimits()
    return switch unit {
    case .count(let limit): KnownSetting(Setting(path, .integer(range), default: defaults[keyPath: limit]))
    case .bytes(let limit): KnownSetting(Setting(path, .size(range), default: defaults[keyPath: limit]))
    case .time(let limit): KnownSetting(Setting(path, .duration(seconds: range), default: defaults[keyPath: limit]))
    }
  }
}

extension ServerLimits {
  /// Reads every row; a row with an error keeps its default.
  ///
  /// - Parameter most: The connections for which there are descriptors.
  init(_ reader: inout SettingsReader, host: HostFacts, most: Int) {
    self.init()
    connections = min(connections, most)
    if let memory = host.memory { self.memory = memory / 2 }
    for row in Self.table {
      switch row.unit {
      case .count(let limit): read(row.path, .integer(row.range), into: limit, from: &reader)
      case .bytes(let limit): read(row.path, .size(row.range), into: limit, from: &reader)
      case .time(let limit): read(row.path, .duration(seconds: row.range), into: limit, from: &reader)
      }
    }
    if connections > most {
      reader.reject(
        "server.limits.connections", problem: "\(connections) is more than this process may have open",
        remedy: "write \(most) at most, or \(DescriptorBudget.remedy)")
    }
  }

  private mutating func read<Value>(
    _ path: String, _ type: SettingType<Value>, into limit: WritableKeyPath<ServerLimits, Value>,
    from reader: inout SettingsReader
  ) {
    if let value = reader.read(Setting(path, type, default: self[keyPath: limit])) { self[keyPath: limit] = value }
  }
}
