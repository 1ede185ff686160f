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
