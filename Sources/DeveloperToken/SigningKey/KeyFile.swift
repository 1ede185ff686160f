public import Cryptography
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

  /// Checks that there is something at `path`, and that it is no folder.
  static func checkPlace(_ path: String) throws(SigningKeyError) {
    guard !path.hasPrefix("~") else { throw .init(.unexpandedHome) }
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { throw .init(.unreadable(errno)) }
    if status.st_mode & S_IFMT == S_IFDIR { throw .init(.directory) }
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

/// Who else on the machine may touch a file that holds a signing key.
public struct KeyFileAccess: Sendable {
  /// The permission bits.
  private let mode: mode_t
  private let owner: uid_t
  private let isReadOnly: Bool

  /// That of an open file; nil if the system does not tell.
  public init?(descriptor: Int32) {
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { return nil }
    self.init(status, isReadOnly: Self.isReadOnly(descriptor))
  }

  init(_ status: stat, isReadOnly: Bool) {
    mode = status.st_mode & 0o777
    owner = status.st_uid
    self.isReadOnly = isReadOnly
  }

  /// A mounted secret (Kubernetes, Docker, systemd credentials) is read-only and has the owner and mode that the
  /// platform gives it. The operator cannot fix these.
  static func isReadOnly(_ descriptor: Int32) -> Bool {
    var status = statvfs()
    return unsafe fstatvfs(descriptor, &status) == 0 && status.f_flag & UInt(ST_RDONLY) != 0
  }

  /// The permission bits, if they let group or others write; nil otherwise. Other users with write access could replace
  /// the key.
  public var modeWritableByOthers: UInt32? { mode & 0o022 == 0 ? nil : mode }

  /// What the operator should fix. None of it prevents the server from starting.
  ///
  /// - Parameter subject: What a sentence begins with: `The key file`.
  public func findings(_ subject: String) -> [Finding] {
    isReadOnly ? [] : [ownedByAnother(subject), readableByOthers(subject)].compactMap { $0 }
  }

  /// Its owner can always write to it. Root could anyway, and this process reads what it is told to.
  private func ownedByAnother(_ subject: String) -> Finding? {
    guard owner != 0, owner != geteuid() else { return nil }
    return Finding(
      id: "key.owned_by_another",
      description: "\(subject) belongs to user \(owner), who is neither root nor this process's user (\(geteuid()))"
        + " and could put another key in its place; chown fixes it.")
  }

  /// Reading by the group is fine if the file belongs to another user: this process may then read it as a member of the
  /// group.
  private func readableByOthers(_ subject: String) -> Finding? {
    guard mode & (owner == geteuid() ? 0o044 : 0o004) != 0 else { return nil }
    return Finding(
      id: "key.readable_by_others",
      description: "\(subject) can be read by others on this machine (mode 0" + String(mode, radix: 8)
        + "), who could sign tokens with it; chmod 600 fixes it.")
  }
}
