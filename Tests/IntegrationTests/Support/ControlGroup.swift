import Glibc
import TestSupport

/// A control group with a memory limit, for a server. `deinit` removes the group, so a reference must exist until all
/// processes of the group have ended.
final class ControlGroup {
  private let path: String
  private let isUnified: Bool

  /// The reason why no control group can be created here; nil if one can be created.
  static let obstacle: String? = {
    do {
      _ = try ControlGroup(megabytes: 64)
      return nil
    } catch { return "No control group with a limit of memory can be made here: it takes root, and cgroup v1 or v2." }
  }()

  init(megabytes: Int) throws {
    let name = "musickit-test-\(getpid())-\(UInt32.random(in: 0 ... .max))"
    let first = "/sys/fs/cgroup/memory/\(name)"
    isUnified = unsafe mkdir(first, 0o755) != 0
    path = isUnified ? "/sys/fs/cgroup/\(name)" : first
    if isUnified, unsafe mkdir(path, 0o755) != 0 { throw TestFailure("'\(path)' cannot be made.") }
    do {
      let file = isUnified ? "memory.max" : "memory.limit_in_bytes"
      guard try run("sh", ["-c", "echo \(megabytes << 20) > \(path)/\(file)"]).status == 0 else {
        throw TestFailure("'\(path)/\(file)' cannot be written.")
      }
      if isUnified { _ = try run("sh", ["-c", "echo 0 > \(path)/memory.swap.max"]) }
    } catch {
      unsafe rmdir(path)
      throw error
    }
  }

  deinit { unsafe rmdir(path) }

  /// A server in this control group, with the settings of `ground` and more.
  func serve(_ ground: Ground, _ more: [String: String] = [:]) throws -> RunningServer {
    try RunningServer(
      "/bin/sh", ["-c", "echo $$ > \(path)/cgroup.procs && exec \"$0\"", Program.path],
      environment: ground.patientSettings.merging(more) { $1 })
  }

  /// The peak memory of the group in bytes, including the kernel's memory for the group.
  var peak: Int {
    get throws {
      let text = try TextFile.read("\(path)/\(isUnified ? "memory.peak" : "memory.max_usage_in_bytes")")
      return Int(text.filter(\.isNumber)) ?? 0
    }
  }
}
