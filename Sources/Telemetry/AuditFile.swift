import Dispatch
import Glibc

/// A file that lines are appended to. It is opened again by its path after it was moved or removed.
///
/// Once for each batch of lines, so at most a hundred times a second, the log checks whether the file is still the one
/// at its path. Lines from before the check are in the old file, and later lines are in the new one.
final class AuditFile: LogTarget {
  private(set) var descriptor: Int32
  private let path: String
  private var identity: FileIdentity?
  private var openError: Int32 = 0
  private var watch: FaultWatch
  private let warn: @Sendable (AuditFileNotice) -> Void

  init(_ path: String, warn: @escaping @Sendable (AuditFileNotice) -> Void) throws(AuditFileError) {
    descriptor = Self.open(path)
    guard descriptor >= 0 else { throw AuditFileError(path: path, code: errno) }
    identity = FileIdentity(descriptor: descriptor)
    watch = FaultWatch(path: path)
    self.path = path
    self.warn = warn
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  func prepare() -> Bool {
    if descriptor >= 0, let identity, identity == FileIdentity(path: path) {
      openError = 0
      return false
    }
    let new = Self.open(path)
    guard new >= 0 else {
      openError = errno
      // The path cannot be opened. A file that was moved away still takes lines. A removed file would lose them.
      if !FileIdentity.isLinked(descriptor) { replaceDescriptor(-1) }
      return false
    }
    openError = 0
    replaceDescriptor(new)
    return true
  }

  func finish(lostLines: Int, error: Int32) {
    let error = openError != 0 ? openError : error
    if let notice = watch.note(error: error, lostLines: lostLines, now: DispatchTime.now().uptimeNanoseconds) {
      warn(notice)
    }
  }

  private func replaceDescriptor(_ new: Int32) {
    if descriptor >= 0 { close(descriptor) }
    descriptor = new
    identity = new >= 0 ? FileIdentity(descriptor: new) : nil
  }

  /// Opens for appending, so that a file that another process truncates is written from its beginning. Does not wait
  /// for a FIFO's reader. Follows symbolic links, by which an operator puts a log elsewhere.
  private static func open(_ path: String) -> Int32 {
    unsafe Glibc.open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0o640)
  }
}
