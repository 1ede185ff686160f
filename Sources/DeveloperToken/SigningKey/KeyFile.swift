import Bytes
public import Cryptography
import Glibc

enum KeyFile {
  /// Reads a file up to a limit, directly into secret memory, with findings about its permissions.
  static func read(_ path: String) throws(SigningKeyError) -> (text: SecretBytes, findings: [Finding]) {
    // Without O_NONBLOCK, opening a FIFO waits for a writer.
    let descriptor = unsafe open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)
    guard descriptor >= 0 else { throw .init(.opening(path, failed: errno)) }
    defer { close(descriptor) }
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { throw .init(.unreadable(errno)) }
    switch status.st_mode & S_IFMT {
    case S_IFREG: break
    case S_IFDIR: throw .init(.directory)
    default: throw .init(.notRegularFile)
    }
    let access = KeyFileAccess(status, isReadOnly: KeyFileAccess.isReadOnly(descriptor))
    if let mode = access.modeWritableByOthers { throw .init(.writableByOthers(mode: mode)) }
    let text = try contents(of: descriptor, size: Int(status.st_size))
    return (text, access.findings("The key file") + KeyFileAccess.findings(aboutFolderOf: path))
  }

  /// Checks that `path` exists and is not a directory.
  static func checkPlace(_ path: String) throws(SigningKeyError) {
    guard !path.hasPrefix("~") else { throw .init(.unexpandedHome) }
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { throw .init(.opening(path, failed: errno)) }
    if status.st_mode & S_IFMT == S_IFDIR { throw .init(.directory) }
  }

  private static func contents(of descriptor: Int32, size: Int) throws(SigningKeyError) -> SecretBytes {
    // Some pseudo-files report size 0. One extra byte detects a file that is too large.
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

extension SigningKeyError.Reason {
  fileprivate static func opening(_ path: String, failed code: Int32) -> Self {
    code == EACCES || code == EPERM ? .denied(FileDenial(path)) : .unreadable(code)
  }
}

/// The access of other users to a file that holds a signing key.
public struct KeyFileAccess: Sendable {
  private let mode: mode_t
  private let owner: uid_t
  private let isReadOnly: Bool

  /// Reads the permissions of an open file. Returns nil if the system does not report them.
  public init?(descriptor: Int32) {
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { return nil }
    self.init(status, isReadOnly: Self.isReadOnly(descriptor))
  }

  init(_ status: stat, isReadOnly: Bool) {
    (mode, owner, self.isReadOnly) = (status.st_mode & 0o7777, status.st_uid, isReadOnly)
  }

  /// Whether the file system is read-only, as of mounted secrets (Kubernetes, Docker, systemd) with the platform's mode.
  static func isReadOnly(_ descriptor: Int32) -> Bool {
    var status = statvfs()
    return unsafe fstatvfs(descriptor, &status) == 0 && status.f_flag & UInt(ST_RDONLY) != 0
  }

  /// The permission bits, if they let group or others write, who could replace the key; nil otherwise.
  public var modeWritableByOthers: UInt32? { mode & 0o022 == 0 ? nil : mode }

  /// Returns what the operator should fix about a subject such as `The key file`. No finding prevents a start.
  public func findings(_ subject: String) -> [Finding] {
    isReadOnly ? [] : [ownedByAnother(subject), readableByOthers(subject)].compactMap { $0 }
  }

  /// The owner can always write to the file. Root can write to any file, and this process only reads it.
  private func ownedByAnother(_ subject: String) -> Finding? {
    guard owner != 0, owner != geteuid() else { return nil }
    return Finding(
      id: "key.owned_by_another",
      description: "\(subject) belongs to user \(owner), who is neither root nor this process's user (\(geteuid()))"
        + " and could put another key in its place; chown fixes it.")
  }

  /// Read access of the group is fine if another user owns the file: this process may then read it as a group member.
  private func readableByOthers(_ subject: String) -> Finding? {
    guard mode & (owner == geteuid() ? 0o044 : 0o004) != 0 else { return nil }
    return Finding(
      id: "key.readable_by_others",
      description: "\(subject) is readable by other users of this machine (mode \(FilePermissions.octal(mode))), who"
        + " could sign tokens with it; chmod 600 fixes it.")
  }
}

/// A user who may write to a folder can put another file in place of one in it, whatever the mode of that file.
extension KeyFileAccess {
  /// Returns what the operator should fix about the folder of a file, or that of the file to which its link leads.
  static func findings(aboutFolderOf file: String) -> [Finding] {
    var folders = [folder(of: file)]
    if let target = unsafe realpath(file, nil) {
      folders.append(folder(of: unsafe String(cString: target)))
      unsafe free(target)
    }
    return folders.lazy.compactMap(finding).prefix(1).map { $0 }
  }

  private static func folder(of file: String) -> String {
    guard let slash = file.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
    return slash == file.utf8.startIndex ? "/" : String(file[..<slash])
  }

  /// Returns nil for nothing to fix, a read-only file system, or permissions that the system does not report. In a
  /// sticky folder, such as /tmp, only the owners of a file and of the folder can replace the file (chmod(2)).
  private static func finding(aboutFolder path: String) -> Finding? {
    var (status, system) = (stat(), statvfs())
    guard unsafe stat(path, &status) == 0, unsafe statvfs(path, &system) == 0, system.f_flag & UInt(ST_RDONLY) == 0
    else { return nil }
    let (mode, owner) = (status.st_mode & 0o7777, status.st_uid)
    let isOfAnother = owner != 0 && owner != geteuid()
    guard isOfAnother || mode & 0o022 != 0 && mode & UInt32(S_ISVTX) == 0 else { return nil }
    return Finding(
      id: "key.folder_writable_by_others",
      description:
        "Other users of this machine can write to the folder of the key file, '\(path)' (user \(owner), mode "
        + "\(FilePermissions.octal(mode))), and put another key in its place; chown and chmod go-w fix it.")
  }
}
