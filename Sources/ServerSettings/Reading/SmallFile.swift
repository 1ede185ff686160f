package import Bytes
import EventLoop
import Glibc

/// The time for all files that are read together. A pipe ends when its writer does, such as a program that gets secrets from
/// a vault (`--config <(…)`). A FIFO may never get a writer.
package struct ReadingTime: Sendable {
  let limit: Duration
  private let end: Deadline
  private let isWanted: @Sendable () -> Bool

  /// The time begins now. It ends early, within a tenth of a second, when `isWanted` returns false.
  package init(_ limit: Duration = .seconds(30), while isWanted: @escaping @Sendable () -> Bool = { true }) {
    (self.limit, self.isWanted, end) = (limit, isWanted, Deadline.now.advanced(by: limit))
  }

  /// The milliseconds of the next wait, for poll(2); nil if the time is over.
  fileprivate var nextWait: Int32? {
    let left = end.duration(since: .now)
    guard left > .zero, isWanted() else { return nil }
    return Int32((min(left, .milliseconds(100)) / .milliseconds(1)).rounded(.up))
  }
}

package enum SmallFile {
  package enum Failure: Error, Equatable {
    case isDirectory
    case tooLarge
    /// The file did not end within this number of seconds, or was not wanted any more.
    case unfinished(seconds: Int)
    case denied(FileDenial)
    case system(Int32)
  }

  package static func read(
    _ path: String, atMost limit: Int, within time: ReadingTime = ReadingTime()
  ) throws(Failure) -> [UInt8] {
    let descriptor = try open(path)
    defer { close(descriptor) }
    return try read(descriptor, atMost: limit, within: time)
  }

  /// Opens a file for reading. The caller closes the descriptor.
  static func open(_ path: String) throws(Failure) -> Int32 {
    // Non-blocking, so that a FIFO without a writer does not block the start forever.
    let descriptor = unsafe Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { throw failure(errno, at: path) }
    return descriptor
  }

  /// Returns the failure with this error number. Landlock denies a folder, too, where a file was expected.
  static func failure(_ code: Int32, at path: String) -> Failure {
    guard code == EACCES else { return .system(code) }
    var status = stat()
    let isDirectory = unsafe stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    return isDirectory ? .isDirectory : .denied(FileDenial(path))
  }

  /// Returns the bytes from `descriptor` to the end, read directly to their final place: no copy of a secret is left. There
  /// is no time limit at a terminal.
  package static func read(_ descriptor: Int32, atMost limit: Int, within time: ReadingTime?) throws(Failure) -> [UInt8]
  {
    var content: [UInt8] = []
    do throws(Failure) {
      // One more byte detects "too large". Unused capacity is never touched, so it uses no memory.
      try content.append(addingCapacity: limit + 1) { (output: inout OutputSpan<UInt8>) throws(Failure) in
        while output.freeCapacity > 0 {
          guard try isReadable(descriptor, within: time) else {
            throw .unfinished(seconds: Int(time?.limit.components.seconds ?? 0))
          }
          let count = try output.fill(from: descriptor)
          if count == 0 { return }
        }
        throw .tooLarge
      }
      return content
    } catch {
      content.wipe()
      throw error
    }
  }

  /// Waits for bytes or for the end, before each read, because a FIFO without a writer would return the end at once.
  private static func isReadable(_ descriptor: Int32, within time: ReadingTime?) throws(Failure) -> Bool {
    while true {
      let wait = time.map { $0.nextWait } ?? -1
      var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      let count = unsafe poll(&entry, 1, wait ?? 0)
      if count > 0 { return true }
      guard count == 0 || errno == EINTR else { throw .system(errno) }
      if wait == nil { return false }
    }
  }
}

extension OutputSpan<UInt8> {
  /// Appends the bytes that are available, and returns their number.
  fileprivate mutating func fill(from descriptor: Int32) throws(SmallFile.Failure) -> Int {
    while true {
      let count = unsafe withUnsafeMutableBufferPointer { buffer, initialized in
        let free = unsafe UnsafeMutableBufferPointer(rebasing: buffer[initialized...])
        let count = unsafe Glibc.read(descriptor, free.baseAddress, free.count)
        initialized += max(count, 0)
        return count
      }
      if count >= 0 { return count }
      guard errno == EINTR || errno == EAGAIN else { throw errno == EISDIR ? .isDirectory : .system(errno) }
    }
  }
}

extension [UInt8] {
  /// Overwrites the bytes in place, in a way that the compiler does not remove. The array must be the last copy: another
  /// array with the storage keeps the bytes.
  mutating func wipe() {
    // Safe: the buffer is valid during the closure.
    unsafe withUnsafeMutableBytes { buffer in
      if let start = buffer.baseAddress { unsafe explicit_bzero(start, buffer.count) }
    }
  }
}

extension SmallFile.Failure: CustomStringConvertible {
  package var description: String {
    switch self {
    case .isDirectory: "is a directory"
    case .tooLarge: "is too large"
    case .unfinished(let seconds): "did not end within \(seconds) s"
    case .system(ENOENT): "does not exist"
    case .denied(let denial): denial.predicate
    case .system(let number): "cannot be read (\(unsafe String(cString: strerror(number))))"
    }
  }
}
