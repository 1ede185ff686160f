package import Bytes
import EventLoop
import Glibc

package enum SmallFile {
  /// The time limit for a file. A pipe ends when its writer does, such as a program that gets secrets from a vault
  /// (`--config <(…)`). A FIFO may never get a writer.
  static let patience = Duration.seconds(30)

  package enum Failure: Error, Equatable {
    case isDirectory
    case tooLarge
    /// The file did not end within this number of seconds.
    case unfinished(seconds: Int)
    case denied(FileDenial)
    case system(Int32)
  }

  package static func read(_ path: String, atMost limit: Int) throws(Failure) -> [UInt8] {
    let descriptor = try open(path)
    defer { close(descriptor) }
    return try read(descriptor, atMost: limit, within: patience)
  }

  /// Opens a file for reading. The caller closes the descriptor.
  static func open(_ path: String) throws(Failure) -> Int32 {
    // Non-blocking, so that a FIFO without a writer does not block the start forever.
    let descriptor = unsafe Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { throw errno == EACCES ? .denied(FileDenial(path)) : .system(errno) }
    return descriptor
  }

  /// Returns the bytes from `descriptor` to the end, read directly to their final place: no copy of a secret is left. There
  /// is no time limit at a terminal.
  package static func read(_ descriptor: Int32, atMost limit: Int, within patience: Duration?) throws(Failure)
    -> [UInt8]
  {
    let end = patience.map { Deadline.now.advanced(by: $0) } ?? .never
    var content: [UInt8] = []
    do throws(Failure) {
      // One more byte detects "too large". Unused capacity is never touched, so it uses no memory.
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

  /// Waits for bytes or for the end, before each read, because a FIFO without a writer would return the end at once.
  private static func isReadable(_ descriptor: Int32, until deadline: Deadline) throws(Failure) -> Bool {
    while true {
      let left = deadline.duration(since: .now)
      // At most one day at a time, so that the milliseconds fit.
      let milliseconds = (min(left, .seconds(86_400)) / .milliseconds(1)).rounded(.up)
      var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      let count = unsafe poll(&entry, 1, Int32(milliseconds))
      if count > 0 { return true }
      guard count == 0 || errno == EINTR else { throw .system(errno) }
      if left == .zero { return false }
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
