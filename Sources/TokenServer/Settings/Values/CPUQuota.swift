import Glibc

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

  private static func text(at path: String) -> String? {
    (try? SmallFile.read(path, atMost: 1 << 16)).map { String(decoding: $0, as: UTF8.self) }
  }
}
