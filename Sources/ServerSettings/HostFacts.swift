import Bytes
package import EventLoop
import Glibc

/// The resources of the machine that defaults and bounds depend on.
public struct HostFacts: Sendable, Equatable {
  /// The hard limit of RLIMIT_NOFILE, which the process makes its soft limit, minus the descriptors that the parent left
  /// open besides the standard streams.
  package var openFiles: Int
  /// The number of cores that this process may use: its affinity within its container's quota, at least 1.
  package var cores: Int
  /// The memory in bytes that the control groups of the process allow. Nil if there is no limit.
  package var memory: Int?
  /// Whether standard error is a terminal.
  package var logsToTerminal: Bool
  /// The listening sockets that the service manager has passed, instead of those that the settings name.
  package var sockets = PassedListeners()

  /// Creates facts from the given values.
  public init(openFiles: Int, cores: Int, memory: Int? = nil, logsToTerminal: Bool) {
    (self.openFiles, self.cores, self.memory, self.logsToTerminal) = (openFiles, cores, memory, logsToTerminal)
  }

  package static func current() -> HostFacts {
    var limit = rlimit()
    let isKnown = unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
    // Three descriptors are the standard streams.
    let openFiles = (isKnown ? Int(clamping: limit.rlim_max) : 1024) - max(0, openDescriptors() - 3)
    let groups = ControlGroups(
      membership: text(at: "/proc/self/cgroup") ?? "", mountInfo: text(at: "/proc/self/mountinfo") ?? "")
    return HostFacts(
      openFiles: openFiles, cores: usableCores(groups),
      memory: groups.least("memory.max", v1: ("memory", "memory.limit_in_bytes"), bytes(inMemoryMax:)),
      logsToTerminal: isatty(STDERR_FILENO) == 1)
  }

  /// Returns the number of open descriptors, or 0 if the system does not provide it.
  package static func openDescriptors() -> Int {
    guard let folder = unsafe opendir("/proc/self/fd") else { return 0 }
    defer { unsafe closedir(folder) }
    var count = 0
    while unsafe readdir(folder) != nil { count += 1 }
    // The folder's own descriptor, `.` and `..` do not count.
    return max(0, count - 3)
  }
}

extension HostFacts {
  /// Returns the affinity's cores within all quotas up the cgroup tree, rounded up, at least 1. A container with half a
  /// core on 64 cores should not run 64 loops. Its cgroup has the quota, not the affinity.
  private static func usableCores(_ groups: ControlGroups) -> Int {
    let affinity = text(at: "/proc/self/status").flatMap(cores(inStatus:))
    let quota = groups.least("cpu.max", cores(inCPUMax:))
    return max(1, min(affinity ?? sysconf(Int32(_SC_NPROCESSORS_ONLN)), quota ?? .max))
  }

  /// Returns the whole cores in cgroup v2's `cpu.max`: 2 for `"150000 100000"`. Returns nil for `max` and invalid text.
  static func cores(inCPUMax text: String) -> Int? {
    let numbers = text.split(whereSeparator: \.isWhitespace).map { Int($0) }
    guard numbers.count == 2, let quota = numbers[0], let period = numbers[1], quota > 0, period > 0 else { return nil }
    return max(1, quota / period + (quota.isMultiple(of: period) ? 0 : 1))
  }

  /// Returns the cores in `/proc/self/status`. `Cpus_allowed` has the affinity as hexadecimal words (proc(5)).
  static func cores(inStatus text: String) -> Int? {
    guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix("Cpus_allowed:") }) else { return nil }
    let mask = line.dropFirst("Cpus_allowed:".count).filter(\.isHexDigit)
    let cores = mask.reduce(0) { $0 + ($1.hexDigitValue ?? 0).nonzeroBitCount }
    return cores > 0 ? cores : nil
  }

  /// Returns the bytes in `memory.max` (v2) or `memory.limit_in_bytes` (v1). Returns nil for no limit and for invalid text.
  static func bytes(inMemoryMax text: String) -> Int? {
    // In v1, "no limit" is the largest multiple of the page size. No machine has this much memory.
    guard let bytes = Int(text.prefix { !$0.isWhitespace }), bytes > 0, bytes < 1 << 60 else { return nil }
    return bytes
  }
}

/// The control groups of a process (cgroups(7)), whose files have its limits.
struct ControlGroups {
  let membership: String
  let mountInfo: String

  /// Returns the smallest limit in ``files(_:v1:)``: the kernel holds a process to those of all ancestors.
  func least(_ name: String, v1: (controller: String, name: String)? = nil, _ limit: (String) -> Int?) -> Int? {
    files(name, v1: v1).compactMap { text(at: $0).flatMap(limit) }.min()
  }

  /// Returns every file with this name in v2, or this controller and name in v1, the process's own cgroup first.
  func files(_ name: String, v1: (controller: String, name: String)? = nil) -> [String] {
    let mounts = mountInfo.split(separator: "\n").compactMap(Mount.init)
    return membership.split(separator: "\n").flatMap { line -> [String] in
      let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      guard parts.count == 3 else { return [] }
      func has(_ controllers: Substring) -> Bool {
        controllers.split(separator: ",").contains { String($0) == v1?.controller }
      }
      guard let file = parts[1].isEmpty ? name : has(parts[1]) ? v1?.name : nil else { return [] }
      let mount = mounts.first { parts[1].isEmpty ? $0.type == "cgroup2" : $0.type == "cgroup" && has($0.options) }
      return (mount?.folders(of: parts[2]) ?? []).map { "\($0)/\(file)" }
    }
  }

  /// A line of mountinfo (proc(5)): `36 35 98:0 /root /point options optional - type source superoptions`.
  private struct Mount {
    let root: Substring
    let point: Substring
    let type: Substring
    let options: Substring

    init?(_ line: Substring) {
      let fields = line.split(separator: " ")
      guard let dash = fields.firstIndex(of: "-"), dash >= 6, fields.count >= dash + 4 else { return nil }
      (root, point, type, options) = (fields[3], fields[4], fields[dash + 1], fields[dash + 3])
    }

    /// Returns the folders of a cgroup and its mounted ancestors. The last is the root, a container's own cgroup.
    func folders(of path: Substring) -> [String] {
      let below = root != "/" && path.hasPrefix(root) ? path.dropFirst(root.count) : path
      var components = below.split(separator: "/")
      // A path that leads out of the namespace does not name a mounted folder.
      if components.contains("..") { components = [] }
      return (0...components.count).reversed().map { "\(point)\(components.prefix($0).map { "/\($0)" }.joined())" }
    }
  }
}

private func text(at path: String) -> String? {
  (try? SmallFile.read(path, atMost: 1 << 20)).map { String(decoding: $0, as: UTF8.self) }
}

/// The distribution of descriptors. Without a free one, a connection hangs; over the limit of connections, it gets 503.
package struct DescriptorBudget {
  let connections: Int
  package let adminConnections: Int
  /// The number of connections to the catalog's upstream and to the store for each loop.
  package let upstreamPerLoop: Int

  /// Standard streams, audit file, the process's own folder of procfs, Dispatch's own descriptors, and brief ones:
  /// settings, keys, name lookups, connections to identity providers and to the collector of spans, connections that
  /// get 503. Also the spare ones of the admin listener, and those of its loop.
  private static let files = 33 + perLoop
  /// For each loop: three pollers, both ends of the wakeup pipe, and a listener for IPv4 and IPv6.
  private static let perLoop = 7
  /// The smallest number of connections, of callers and to the admin listener, that makes a start useful.
  private static let leastConnections = 16
  /// The maximum number of admin connections, enough for probes and scrapes.
  private static let mostAdminConnections = 64
  /// The maximum number of upstream connections of a loop (`UpstreamLimits.http1Connections`).
  private static let mostUpstreamPerLoop = 400

  /// Divides `openFiles`. With fewer than `least(loops:)`, none are left for callers: `connections` is 0 or less.
  init(openFiles: Int, loops: Int) {
    let spare = openFiles - Self.least(loops: loops) + Self.leastConnections
    adminConnections = min(Self.mostAdminConnections, max(1, spare / 2))
    // The minimum includes one connection to the upstream for each loop.
    let left = spare - adminConnections + loops
    upstreamPerLoop = min(Self.mostUpstreamPerLoop, max(1, left / 4 / loops))
    connections = left - loops * upstreamPerLoop
  }

  /// Returns the smallest number of descriptors with which this many loops can serve.
  package static func least(loops: Int) -> Int { files + loops * (perLoop + 1) + leastConnections }

  /// Returns the largest number of loops for `openFiles` descriptors. It is 0 or less if even one loop needs more.
  static func mostLoops(openFiles: Int) -> Int { (openFiles - least(loops: 0)) / (perLoop + 1) }

  package static let remedy = "raise the limit of descriptors (ulimit -n, LimitNOFILE)"
}

/// The sockets that the service manager has passed, for each listener. The server opens a listener that has none.
package struct PassedListeners: Sendable, Equatable {
  package var `public`: [PassedSocket] = []
  package var admin: [PassedSocket] = []

  init() {}

  /// Divides sockets by their names; one without a name is the public listener's. Throws for any other name, and for a
  /// socket that is passed twice: callers would reach the admin listener, or either listener by chance.
  package init(_ sockets: [PassedSocket]) throws(PassedSocketError) {
    for (index, socket) in sockets.enumerated() {
      if let earlier = sockets[..<index].first(where: { $0.isSameSocket(as: socket) }) {
        let names = [earlier, socket].map { quoted($0.name ?? "public") }.joined(separator: " and ")
        throw PassedSocketError(
          "The service manager passes the same socket, \(socket.address), twice, with the names \(names); give each "
            + "listener a socket unit of its own.")
      }
      switch socket.name {
      case nil, "public": `public`.append(socket)
      case "admin": admin.append(socket)
      case let name?:
        throw PassedSocketError(
          "The service manager passes a socket with the name \(quoted(name)); write FileDescriptorName=public or "
            + "FileDescriptorName=admin in the socket unit.")
      }
    }
  }

  var warnings: [String] {
    (`public` + admin).compactMap { socket in
      socket.modeOpenToAll.map { mode in
        "Every user of this machine may connect to the passed socket \(socket.address) (mode "
          + "\(FilePermissions.octal(mode))), and counts as a trusted proxy there. Write SocketMode=0660 in its unit."
      }
    }
  }
}
