import Glibc

/// How files look from outside, to see that they have changed without reading them.
struct FileFingerprints {
  /// Follows symbolic links, which is how Kubernetes and Docker swap a secret whole.
  private struct Fingerprint: Equatable {
    let device: UInt
    let inode: UInt
    let size: Int
    let modified: Time
    /// This time also changes when the owner or the mode changes.
    let changed: Time
  }

  private struct Time: Equatable {
    let seconds: Int
    let nanoseconds: Int

    init(_ time: timespec) {
      seconds = time.tv_sec
      nanoseconds = time.tv_nsec
    }
  }

  private var files: [String: Fingerprint?] = [:]

  /// The state of the files at `paths` now; one that is not there is a state as well.
  init(_ paths: [String]) {
    watch(paths)
  }

  /// Adds the state of further files. One that is watched already keeps the state that is known of it: whatever has
  /// happened to the file since is still news.
  mutating func watch(_ paths: [String]) {
    for path in paths where files[path] == nil { files[path] = .some(Self.fingerprint(path)) }
  }

  /// Forgets all files but these.
  mutating func keepOnly(_ paths: [String]) {
    files = files.filter { paths.contains($0.key) }
  }

  /// Takes the present state of every file for known.
  mutating func look() {
    for path in files.keys { files[path] = .some(Self.fingerprint(path)) }
  }

  /// Whether any file is in another state than the known one.
  var haveChanged: Bool {
    files.contains { path, known in Self.fingerprint(path) != known }
  }

  private static func fingerprint(_ path: String) -> Fingerprint? {
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return nil }
    // A pipe can be read once: what its writer does afterwards is no reason to read it again.
    guard status.st_mode & S_IFMT != S_IFIFO else { return nil }
    return Fingerprint(
      device: UInt(status.st_dev), inode: UInt(status.st_ino), size: Int(status.st_size),
      modified: Time(status.st_mtim), changed: Time(status.st_ctim))
  }
}
