import EventLoop
import Glibc

/// Reads a whole file that ought to be small.
package enum SmallFile {
  /// How long a file may take to its end. A pipe ends when its writer does, such as a program that asks a vault for
  /// secrets (`--config <(…)`); the writer of a FIFO may never come.
  static let patience = Duration.seconds(30)

  /// Why a file could not be read.
  package enum Failure: Error, Equatable {
    case isDirectory
    /// It holds more than was allowed.
    case tooLarge
    /// It has not come to its end within so many seconds.
    case unfinished(seconds: Int)
    /// The system's error number.
    case system(Int32)
  }

  /// The bytes of the file at `path`.
  package static func read(_ path: String, atMost limit: Int) throws(Failure) -> [UInt8] {
    let descriptor = try open(path)
    defer { close(descriptor) }
    return try read(descriptor, atMost: limit, within: patience)
  }

  /// A descriptor for reading, which the caller closes.
  static func open(_ path: String) throws(Failure) -> Int32 {
    // Non-blocking, so that a FIFO without a writer does not stop the start for ever.
    let descriptor = unsafe Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { throw .system(errno) }
    return descriptor
  }

  /// The bytes from `descriptor` to its end, read to where they stay: no copy is left behind of what may be a secret.
  ///
  /// - Parameter patience: How long that may take; nil for any time, as at a terminal.
  package static func read(_ descriptor: Int32, atMost limit: Int, within patience: Duration?) throws(Failure)
    -> [UInt8]
  {
    let end = patience.map { Deadline.now.advanced(by: $0) } ?? .never
    var content: [UInt8] = []
    do throws(Failure) {
      // One more tells "too large". Room that is not needed is never touched, and so takes no memory.
      try content.append(addingCapacity: limit + 1) { (output: inout OutputSpan<UInt8>) throws(Failure) in
        while output.freeCapacity > 0 {
          guard try isReadable(descriptor, until: end) else {
            throw .unfinished(seconds: Int(patience?.components.seconds ?? 0))
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

  /// Waits until there are bytes or the end; false if the deadline comes first.
  ///
  /// Asked before each read, because a read says "end" of a FIFO that no writer has opened yet.
  private static func isReadable(_ descriptor: Int32, until deadline: Deadline) throws(Failure) -> Bool {
    while true {
      let left = deadline.duration(since: .now)
      // A day at a time at most, which fits.
      let (seconds, attoseconds) = min(left, .seconds(86_400)).components
      let milliseconds = Int32(seconds) * 1000 + Int32(attoseconds / 1_000_000_000_000_000) + 1
      var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      let count = unsafe poll(&entry, 1, left == .zero ? 0 : milliseconds)
      if count > 0 { return true }
      guard count == 0 || errno == EINTR else { throw .system(errno) }
      if left == .zero { return false }
    }
  }
}

extension OutputSpan<UInt8> {
  /// Appends what can be read at once; returns how much that is.
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
  /// Overwrites the bytes in place, in a way that the compiler does not optimise away.
  ///
  /// Call it on the last copy: another array that shares the storage keeps the bytes.
  mutating func wipe() {
    // Safe: the buffer is valid for the length of the closure.
    unsafe withUnsafeMutableBytes { buffer in
      if let start = buffer.baseAddress { unsafe explicit_bzero(start, buffer.count) }
    }
  }
}

extension SmallFile.Failure: CustomStringConvertible {
  /// What is wrong with the file: `does not exist`.
  package var description: String {
    switch self {
    case .isDirectory: "is a directory"
    case .tooLarge: "is too large"
    case .unfinished(let seconds): "has not come to its end within \(seconds) s"
    case .system(ENOENT): "does not exist"
    case .system(EACCES): "may not be read by this process"
    case .system(let number): "cannot be read (\(unsafe String(cString: strerror(number))))"
    }
  }
}
