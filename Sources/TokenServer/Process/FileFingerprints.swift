import Glibc

/// How files look from outside, to see that they have changed without reading them.
struct FileFingerprints: Equatable {
  /// Follows symbolic links, which is how Kubernetes and Docker swap a secret whole.
  private struct Fingerprint: Equatable {
    let device: UInt
    let inode: UInt
    let size: Int
    let seconds: Int
    let nanoseconds: Int
  }

  private let files: [String: Fingerprint?]

  /// The state of the files at `paths` now; one that is not there is a state as well.
  init(_ paths: [String]) {
    files = Dictionary(paths.map { ($0, Self.fingerprint($0)) }, uniquingKeysWith: { first, _ in first })
  }

  private static func fingerprint(_ path: String) -> Fingerprint? {
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return nil }
    return Fingerprint(
      device: UInt(status.st_dev), inode: UInt(status.st_ino), size: Int(status.st_size),
      seconds: status.st_mtim.tv_sec, nanoseconds: status.st_mtim.tv_nsec)
  }
}
