import CPlatform
import Glibc

/// How much of the machine this process may use.
public enum Processors {
  /// Number of processors, at least 1: those that the affinity mask allows, bounded by the quota of the
  /// container's control group (`cpu.max` of cgroup v2, `cpu.cfs_quota_us` of v1), rounded up.
  public static var available: Int {
    let usable = Int(cplatform_usable_processors())
    return max(1, min(usable, quota() ?? usable))
  }

  private static func quota() -> Int? {
    if let text = contents(of: "/sys/fs/cgroup/cpu.max") { return processors(cpuMax: text) }
    guard let quota = contents(of: "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
      let period = contents(of: "/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    else { return nil }
    return processors(cpuMax: quota.filter { $0 != "\n" } + " " + period)
  }

  /// Reads `"150000 100000"` (microseconds in each period) as 2, and `"max 100000"` as no bound.
  static func processors(cpuMax text: String) -> Int? {
    let numbers = text.split(whereSeparator: \.isWhitespace)
    guard numbers.count == 2, let quota = Int(numbers[0]), let period = Int(numbers[1]), quota > 0, period > 0
    else { return nil }
    return quota / period + (quota % period == 0 ? 0 : 1)
  }

  private static func contents(of path: String) -> String? {
    let raw = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard raw >= 0 else { return nil }
    let file = Descriptor(owning: raw)
    var bytes = [UInt8](repeating: 0, count: 128)
    let count = unsafe read(file.raw, &bytes, bytes.count)
    return count > 0 ? String(decoding: bytes.prefix(count), as: UTF8.self) : nil
  }
}
