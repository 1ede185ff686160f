import Glibc

/// A file without a name, for what a child process reads or writes: unlike a pipe it is never full.
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

  /// Writes all of it, and goes back to the start.
  func fill(with bytes: [UInt8]) throws {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
      guard count > 0 else { throw TestFailure("The scratch file takes no more.") }
      rest = rest.dropFirst(count)
    }
    lseek(descriptor, 0, SEEK_SET)
  }

  /// Everything in it.
  func contents() -> [UInt8] {
    let size = max(0, lseek(descriptor, 0, SEEK_END))
    return unsafe [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
      count = unsafe max(0, pread(descriptor, buffer.baseAddress, buffer.count, 0))
    }
  }
}
