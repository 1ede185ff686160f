import Glibc

/// What the process takes of the machine, as the system has it at a moment. Reads files: not for an event loop.
struct ProcessFigures: Sendable {
  /// Bytes of memory in use, those shared with others included (proc(5), `statm`); 0 if the system does not say.
  let residentBytes: Int
  /// Seconds of all cores, in the program and in the kernel.
  let cpuSeconds: Double
  /// Descriptors that are open; 0 if the system does not say.
  let openDescriptors: Int
  /// The most that may be.
  let maximumDescriptors: Int

  /// As it is now.
  init() {
    residentBytes = Self.residentPages() * sysconf(Int32(_SC_PAGESIZE))
    cpuSeconds = Self.cpuTime()
    openDescriptors = Self.countDescriptors()
    var limit = rlimit()
    maximumDescriptors =
      unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
      ? Int(clamping: limit.rlim_cur) : 0
  }

  private static func residentPages() -> Int {
    guard let text = try? SmallFile.read("/proc/self/statm", atMost: 4096) else { return 0 }
    let pages = String(decoding: text, as: UTF8.self).split(separator: " ")
    return pages.count > 1 ? Int(pages[1]) ?? 0 : 0
  }

  private static func cpuTime() -> Double {
    var time = timespec()
    guard unsafe clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0 else { return 0 }
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }

  private static func countDescriptors() -> Int {
    guard let folder = unsafe opendir("/proc/self/fd") else { return 0 }
    defer { unsafe _ = closedir(folder) }
    var count = 0
    while unsafe readdir(folder) != nil { count += 1 }
    // Not `.`, not `..`, and not the one that the folder is read by.
    return max(0, count - 3)
  }
}
