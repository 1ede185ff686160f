import Glibc

/// An unnamed file that a child process reads or writes. Unlike a pipe, it never blocks because it is full.
struct ScratchFile: ~Copyable {
  let descriptor: Int32

  init() throws {
    var template = Array("/tmp/scratch.XXXXXX".utf8CString)
    descriptor = unsafe mkstemp(&template)
    guard descriptor >= 0 else { throw TestFailure("No scratch file can be made in /tmp.") }
    unsafe unlink(template)
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
  }

  deinit { _ = close(descriptor) }

  /// Writes all bytes, and seeks to the start.
  func fill(with bytes: [UInt8]) throws {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
      guard count > 0 else { throw TestFailure("The scratch file takes no more.") }
      rest = rest.dropFirst(count)
    }
    lseek(descriptor, 0, SEEK_SET)
  }

  /// Returns all bytes of the file.
  func contents() -> [UInt8] {
    let size = max(0, lseek(descriptor, 0, SEEK_END))
    return unsafe [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
      count = unsafe max(0, pread(descriptor, buffer.baseAddress, buffer.count, 0))
    }
  }
}
