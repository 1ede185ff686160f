import Glibc

/// Reads a whole file that ought to be small.
enum SmallFile {
  /// Why a file could not be read.
  enum Failure: Error, Equatable {
    case isDirectory
    /// It holds more than was allowed.
    case tooLarge
    /// The system's error number.
    case system(Int32)
  }

  /// The bytes of the file at `path`.
  static func read(_ path: String, atMost limit: Int) throws(Failure) -> [UInt8] {
    // Non-blocking, so that a FIFO without a writer does not stop the start for ever.
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { throw .system(errno) }
    defer { close(descriptor) }
    return try read(descriptor, atMost: limit)
  }

  /// The bytes from `descriptor` to its end.
  static func read(_ descriptor: Int32, atMost limit: Int) throws(Failure) -> [UInt8] {
    var content: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 16_384)
    while true {
      let count = unsafe Glibc.read(descriptor, &chunk, chunk.count)
      if count == 0 { return content }
      guard count > 0 else {
        if errno == EINTR { continue }
        throw errno == EISDIR ? .isDirectory : .system(errno)
      }
      content.append(contentsOf: chunk[..<count])
      guard content.count <= limit else { throw .tooLarge }
    }
  }
}

extension SmallFile.Failure: CustomStringConvertible {
  /// What is wrong with the file: `does not exist`.
  var description: String {
    switch self {
    case .isDirectory: "is a directory"
    case .tooLarge: "is too large"
    case .system(ENOENT): "does not exist"
    case .system(EACCES): "may not be read by this process"
    case .system(let number): "cannot be read (\(unsafe String(cString: strerror(number))))"
    }
  }
}
