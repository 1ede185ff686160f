import Glibc

/// The resources of the machine on which defaults and bounds depend.
public struct HostFacts: Sendable, Equatable {
  /// The most descriptors that this process may have open (RLIMIT_NOFILE's hard limit, to which it raises itself), less
  /// those that its parent left open beside the standard streams.
  public var openFiles: Int
  /// The cores that this process may use: its affinity within its container's quota, at least 1.
  public var cores: Int
  /// The bytes of memory that its control groups allow it; nil if they set no limit.
  public var memory: Int?
  /// Whether standard error is a terminal.
  public var logsToTerminal: Bool

  /// Facts as given.
  public init(openFiles: Int, cores: Int, memory: Int? = nil, logsToTerminal: Bool) {
    self.openFiles = openFiles
    self.cores = cores
    self.memory = memory
    self.logsToTerminal = logsToTerminal
  }

  /// The facts of this machine, now.
  public static func current() -> HostFacts {
    var limit = rlimit()
    let isKnown = unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
    let openFiles = (isKnown ? Int(clamping: limit.rlim_max) : 1024) - inheritedFiles()
    return HostFacts(
      openFiles: openFiles, cores: CPUQuota.usableCores(), memory: MemoryQuota.limit(),
      logsToTerminal: isatty(STDERR_FILENO) == 1)
  }

  /// How many descriptors beyond the standard streams are open; 0 where the system does not tell.
  private static func inheritedFiles() -> Int {
    guard let folder = unsafe opendir("/proc/self/fd") else { return 0 }
    defer { unsafe closedir(folder) }
    var count = 0
    while unsafe readdir(folder) != nil { count += 1 }
    // Two entries are the folder and its parent, three the standard streams, and one is `folder`.
    return max(0, count - 6)
  }
}

/// How many cores this process may keep busy.
///
/// A container with half a core on a 64-core machine should not run 64 event loops: its quota is in the cgroup, not in
/// the CPU affinity that `nproc` sees.
enum CPUQuota {
  /// The affinity's cores within every quota up the cgroup tree, rounded up, at least 1.
  static func usableCores() -> Int {
    let membership = text(at: "/proc/self/cgroup") ?? ""
    let quotas = files(membership: membership).compactMap { text(at: $0).flatMap(cores(inCPUMax:)) }
    let affinity = text(at: "/proc/self/status").flatMap(cores(inStatus:))
    return max(1, min(affinity ?? sysconf(Int32(_SC_NPROCESSORS_ONLN)), quotas.min() ?? .max))
  }

  /// The whole cores that cgroup v2's `cpu.max` allows (`"150000 100000"` allows 2); nil for `max` or anything else.
  static func cores(inCPUMax text: String) -> Int? {
    let numbers = text.split(whereSeparator: \.isWhitespace).map { Int($0) }
    guard numbers.count == 2, let quota = numbers[0], let period = numbers[1], quota > 0, period > 0 else { return nil }
    return max(1, quota / period + (quota.isMultiple(of: period) ? 0 : 1))
  }

  /// Every `cpu.max` that binds the process, its own cgroup's first, given `/proc/self/cgroup` (cgroups(7)).
  static func files(membership: String) -> [String] {
    guard let line = membership.split(separator: "\n").first(where: { $0.hasPrefix("0::/") }) else { return [] }
    var components = line.dropFirst(3).split(separator: "/")
    var files: [String] = []
    while true {
      files.append((["/sys/fs/cgroup"] + components.map(String.init) + ["cpu.max"]).joined(separator: "/"))
      guard components.popLast() != nil else { return files }
    }
  }

  /// The cores in `/proc/self/status`, which has the affinity as hexadecimal words in `Cpus_allowed` (proc(5)).
  static func cores(inStatus text: String) -> Int? {
    guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix("Cpus_allowed:") }) else { return nil }
    let mask = line.dropFirst("Cpus_allowed:".count).filter(\.isHexDigit)
    let cores = mask.reduce(0) { $0 + ($1.hexDigitValue ?? 0).nonzeroBitCount }
    return cores > 0 ? cores : nil
  }
}

/// How much memory the process's control groups allow it (cgroups(7)).
///
/// The kernel ends a process that exceeds the limit of its own cgroup or of any ancestor, so the smallest one counts.
enum MemoryQuota {
  /// The smallest limit in bytes; nil if there is no limit.
  static func limit() -> Int? {
    let files = files(
      membership: text(at: "/proc/self/cgroup") ?? "", mounts: text(at: "/proc/self/mountinfo") ?? "")
    return files.compactMap { text(at: $0).flatMap(bytes(in:)) }.min()
  }

  /// The bytes of `memory.max` (v2) or `memory.limit_in_bytes` (v1); nil for `max`, for v1's largest number, which
  /// stands for the same, and for anything else.
  static func bytes(in text: String) -> Int? {
    guard let bytes = Int(text.prefix { !$0.isWhitespace }), bytes > 0, bytes < unlimited else { return nil }
    return bytes
  }

  /// v1 writes "no limit" as the largest multiple of the page size; no machine has as much as this.
  private static let unlimited = 1 << 60

  /// Every file that holds a limit for the process, given `/proc/self/cgroup` and `/proc/self/mountinfo`.
  static func files(membership: String, mounts: String) -> [String] {
    let mounts = mounts.split(separator: "\n").compactMap(Mount.init)
    return membership.split(separator: "\n").flatMap { line -> [String] in
      let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      guard parts.count == 3 else { return [] }
      let isUnified = parts[1].isEmpty
      guard isUnified || parts[1].split(separator: ",").contains("memory") else { return [] }
      guard let mount = mounts.first(where: { isUnified ? $0.isUnified : $0.hasMemoryController }) else { return [] }
      return mount.folders(of: parts[2]).map { $0 + (isUnified ? "/memory.max" : "/memory.limit_in_bytes") }
    }
  }

  /// A line of mountinfo (proc(5)): `36 35 98:0 /root /point options optional - type source superoptions`.
  private struct Mount {
    let root: String
    let point: String
    let isUnified: Bool
    let hasMemoryController: Bool

    init?(_ line: Substring) {
      let fields = line.split(separator: " ")
      guard let dash = fields.firstIndex(of: "-"), dash >= 6, fields.count >= dash + 4 else { return nil }
      root = String(fields[3])
      point = String(fields[4])
      isUnified = fields[dash + 1] == "cgroup2"
      hasMemoryController =
        fields[dash + 1] == "cgroup" && fields[dash + 3].split(separator: ",").contains("memory")
    }

    /// The folder of the cgroup `path` and the folders of its mounted ancestors. In a container the mount shows the
    /// container's own cgroup as its root.
    func folders(of path: Substring) -> [String] {
      var below = path
      if root != "/", below.hasPrefix(root) { below = below.dropFirst(root.count) }
      var components = below.split(separator: "/").map(String.init)
      // A path that leads out of the namespace names nothing that is mounted.
      if components.contains("..") { components = [] }
      var folders: [String] = []
      while true {
        folders.append(([point] + components).joined(separator: "/"))
        guard components.popLast() != nil else { return folders }
      }
    }
  }
}

private func text(at path: String) -> String? {
  (try? SmallFile.read(path, atMost: 1 << 20)).map { String(decoding: $0, as: UTF8.self) }
}

/// How the descriptors that a process may have open are divided: a connection that cannot be accepted hangs, and one that
/// is over its limit gets 503.
package struct DescriptorBudget {
  /// Connections that callers may have.
  let connections: Int
  /// Connections to the admin listener.
  package let adminConnections: Int
  /// Connections that each loop may have to the catalog's upstream.
  package let upstreamPerLoop: Int

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
  private static let mostUpstreamPerLoop = 256

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
  package static func least(loops: Int) -> Int { files + loops * (perLoop + 1) + leastConnections }

  /// The most loops for which `openFiles` descriptors suffice; 0 or less if they are too few for a single loop.
  static func mostLoops(openFiles: Int) -> Int { (openFiles - least(loops: 0)) / (perLoop + 1) }

  /// What the system must do for a process that has too few.
  package static let remedy = "raise the limit of descriptors (ulimit -n, LimitNOFILE)"
}
