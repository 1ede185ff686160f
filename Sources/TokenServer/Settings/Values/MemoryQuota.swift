import Glibc

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

  private static func text(at path: String) -> String? {
    (try? SmallFile.read(path, atMost: 1 << 20)).map { String(decoding: $0, as: UTF8.self) }
  }
}
