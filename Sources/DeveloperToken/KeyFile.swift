import Glibc

/// A key file's text, and what there is to say about its permissions.
struct KeyFile {
  let text: SecretBytes
  let findings: [Finding]

  /// Reads the file, bounded, straight into secret memory.
  static func read(_ path: String) throws(SigningKeyError) -> KeyFile {
    // Without O_NONBLOCK the open of a FIFO waits for a writer.
    let descriptor = unsafe open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)
    guard descriptor >= 0 else { throw .init(.unreadable(errno)) }
    defer { close(descriptor) }
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { throw .init(.unreadable(errno)) }
    try checkType(status.st_mode)
    let access = KeyFileAccess(status, isReadOnly: KeyFileAccess.isReadOnly(descriptor))
    if let mode = access.modeWritableByOthers { throw .init(.writableByOthers(mode: mode)) }
    let text = try contents(of: descriptor, size: Int(status.st_size))
    return KeyFile(text: text, findings: access.findings("The key file"))
  }

  private static func checkType(_ mode: mode_t) throws(SigningKeyError) {
    switch mode & S_IFMT {
    case S_IFREG: return
    case S_IFDIR: throw .init(.directory)
    default: throw .init(.notRegularFile)
    }
  }

  private static func contents(of descriptor: Int32, size: Int) throws(SigningKeyError) -> SecretBytes {
    // Some pseudo-files report size 0, so a small buffer is tried in any case; one byte more tells "too large".
    let capacity = min(max(size, 1024), KeyText.limit) + 1
    let text = try SecretBytes(capacity: capacity) { output throws(SigningKeyError) in
      while output.freeCapacity > 0 {
        let count = unsafe output.withUnsafeMutableBufferPointer { buffer, initialized in
          let free = unsafe UnsafeMutableBufferPointer(rebasing: buffer[initialized...])
          let count = unsafe Glibc.read(descriptor, free.baseAddress, free.count)
          initialized += max(count, 0)
          return count
        }
        if count == 0 { return }
        guard count > 0 || errno == EINTR else { throw .init(.unreadable(errno)) }
      }
    }
    guard text.count < capacity else { throw .init(.tooLarge(limit: KeyText.limit)) }
    return text
  }
}
