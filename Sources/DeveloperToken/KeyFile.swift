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
    guard status.st_mode & 0o022 == 0 else {
      throw .init(.writableByOthers(mode: status.st_mode & 0o777))
    }
    let text = try contents(of: descriptor, size: Int(status.st_size))
    let finding = warning(for: status, isReadOnly: isReadOnly(descriptor))
    return KeyFile(text: text, findings: finding.map { [$0] } ?? [])
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

  /// A mounted secret (Kubernetes, Docker, systemd credentials) is read-only and has the mode that the platform gives
  /// it, which is nothing for the operator to mend.
  private static func isReadOnly(_ descriptor: Int32) -> Bool {
    var status = statvfs()
    return unsafe fstatvfs(descriptor, &status) == 0 && status.f_flag & UInt(ST_RDONLY) != 0
  }

  /// Reading by the group is fair where the file belongs to somebody else: the group is then how this process reads it.
  static func warning(for status: stat, isReadOnly: Bool) -> Finding? {
    let extra: mode_t = status.st_uid == geteuid() ? 0o044 : 0o004
    guard status.st_mode & extra != 0, !isReadOnly else { return nil }
    return Finding(
      id: "key.readable_by_others",
      description: "The key file can be read by others on this machine (mode 0"
        + String(status.st_mode & 0o777, radix: 8) + "), who could sign tokens with it; chmod 600 mends it.")
  }
}
