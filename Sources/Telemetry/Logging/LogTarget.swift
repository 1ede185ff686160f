import Dispatch
import Glibc

/// The destination of a ``LogSink``. The sink calls it only on its own thread, where it may block.
protocol LogTarget: AnyObject {
  /// The present descriptor, or -1 if the file is not open.
  var descriptor: Int32 { get }

  /// Prepares the destination for lines. Returns whether they go to another file than the lines before.
  func prepare() -> Bool

  /// Receives the result of writing these lines: the number of lines lost since the last call, those without room too, and
  /// the error number of the failed write, or 0.
  func finish(lostLines: Int, error: Int32)
}

extension LogTarget {
  /// Writes bytes without a time limit. Returns how many at the end could not be written, and the error.
  func write(_ bytes: UnsafeRawBufferPointer) -> (left: Int, error: Int32) {
    var written = 0
    while written < bytes.count {
      let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[written...])
      let count = unsafe Glibc.write(descriptor, rest.baseAddress, rest.count)
      if count > 0 {
        written += count
      } else if count < 0, errno == EAGAIN {
        waitUntilWritable()
      } else if count == 0 || errno != EINTR {
        return (bytes.count - written, count == 0 ? EIO : errno)
      }
    }
    return (0, 0)
  }

  /// Waits until a terminal or pipe is writable that this or another process has made non-blocking (`O_NONBLOCK`).
  private func waitUntilWritable() {
    var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
    unsafe poll(&entry, 1, 1000)
  }
}

/// A target for a descriptor that its owner opened and keeps open.
final class FixedTarget: LogTarget {
  let descriptor: Int32

  init(_ descriptor: Int32) { self.descriptor = descriptor }

  func prepare() -> Bool { false }
  func finish(lostLines: Int, error: Int32) {}
}

/// Reports that failures of a file begin and that they are over, but not ten times a second. A value without a clock.
struct FailureWatch {
  let path: String
  /// The error of the last notice of failure; 0 before, and after the recovery.
  private var toldError: Int32 = 0
  /// The number of lines lost since the last recovery.
  private var lostLines = 0
  private var quietUntil: UInt64 = 0

  /// The minimum time between two notices of failure, in nanoseconds.
  static let pause: UInt64 = 10_000_000_000

  init(path: String) { self.path = path }

  /// Takes the result of a batch, with the number of the error or 0, and the time in ns. Returns the notice to report.
  mutating func note(error: Int32, lostLines lost: Int, now: UInt64) -> String? {
    lostLines += lost
    if error != 0 {
      // Another error may need another action.
      guard error != toldError, now >= quietUntil else { return nil }
      toldError = error
      quietUntil = now + Self.pause
      return AuditFileError(path: path, code: error).description
    }
    guard toldError != 0 else { return nil }
    toldError = 0
    defer { lostLines = 0 }
    return "The server can write the audit file '\(path)' again. Records lost: \(lostLines)."
  }
}

/// A file that receives lines, reopened by its path after it was moved or removed.
///
/// For each batch of lines, so at most a hundred times a second, it checks whether the path still leads to the open file.
final class AuditFile: LogTarget {
  private(set) var descriptor: Int32
  private var identity: FileIdentity?
  private var openError: Int32 = 0
  private var watch: FailureWatch
  private let warn: @Sendable (String) -> Void

  init(_ path: String, warn: @escaping @Sendable (String) -> Void) throws(AuditFileError) {
    descriptor = Self.open(path)
    guard descriptor >= 0 else { throw AuditFileError(path: path, code: errno) }
    identity = FileIdentity(descriptor: descriptor)
    watch = FailureWatch(path: path)
    self.warn = warn
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  func prepare() -> Bool {
    openError = 0
    if descriptor >= 0, let identity, identity == FileIdentity(path: watch.path) { return false }
    let new = Self.open(watch.path)
    guard new >= 0 else {
      openError = errno
      // A file that was moved still receives lines. A removed file would lose them.
      if !FileIdentity.isLinked(descriptor) { replaceDescriptor(-1) }
      return false
    }
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

  /// Opens the file in append mode, so that lines go to the start of a file that another process truncates, without a wait
  /// for a FIFO's reader. Symbolic links are followed: an operator may use one to put a log elsewhere.
  private static func open(_ path: String) -> Int32 {
    unsafe Glibc.open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0o640)
  }
}

package struct AuditFileError: Error, Equatable, CustomStringConvertible {
  let path: String
  let code: Int32

  package var description: String {
    // Opening a FIFO without a reader fails with ENXIO, and so does opening a socket, which `/dev/stdout` may be.
    let reason =
      switch code {
      case ENXIO: "no process reads the FIFO, or it is a socket"
      case ENOENT where isLink: "it is a symbolic link to a folder that does not exist; make the folder"
      case EACCES where isPermitted:
        "its folder is not the one of the start, and the server has given up all others; restart the server"
      default: unsafe String(cString: strerror(code))
      }
    return "The server cannot write the audit file '\(path)': \(reason)."
  }

  /// Whether permissions (access(2)) allow writing, so that another restriction denies it, such as Landlock.
  private var isPermitted: Bool {
    if unsafe access(path, W_OK) == 0 { return true }
    let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
    return unsafe access(path, F_OK) != 0 && access(folder, W_OK | X_OK) == 0
  }

  private var isLink: Bool {
    var status = stat()
    return unsafe lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
  }
}

/// The identity of a file, independent of its name.
struct FileIdentity: Equatable {
  private let device: dev_t
  private let number: ino_t

  init?(descriptor: Int32) {
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { return nil }
    (device, number) = (status.st_dev, status.st_ino)
  }

  /// Follows symbolic links. Returns nil if there is no accessible file.
  init?(path: String) {
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return nil }
    (device, number) = (status.st_dev, status.st_ino)
  }

  /// Whether an open file still has a name.
  static func isLinked(_ descriptor: Int32) -> Bool {
    var status = stat()
    return unsafe fstat(descriptor, &status) == 0 && status.st_nlink > 0
  }
}
