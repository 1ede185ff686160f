import Glibc

extension Listener {
  /// Owner and group may connect; the folder's permissions decide who else reaches it.
  private static let socketMode: mode_t = 0o660

  /// Opens a Unix-domain socket, and replaces one that no process listens on any more.
  static func openUnix(_ path: String, loops: Int) throws -> [Listener] {
    let address = SocketAddress.unix(path: path)
    let descriptor = try Descriptor.socket(family: AF_UNIX)
    do {
      try bind(descriptor, to: address)
    } catch {
      guard error.code == EADDRINUSE else { throw error }
      if let obstacle = PathObstacle(at: path) { throw obstacle }
      guard try isLeftOver(address) else { throw error }
      unsafe unlink(path)
      try bind(descriptor, to: address)
    }
    let file = SocketFile(path)
    unsafe chmod(path, socketMode)
    var listeners: [Listener] = []
    for _ in 1..<max(loops, 1) { listeners.append(try listening(try descriptor.duplicate(), at: address)) }
    // One of them removes the file.
    listeners.append(try listening(consume descriptor, at: address, file: file))
    return listeners
  }

  /// Whether no process listens on the socket at this address.
  private static func isLeftOver(_ address: SocketAddress) throws(SocketError) -> Bool {
    let probe = try Descriptor.socket(family: AF_UNIX)
    let result = unsafe try address.withSocketAddress { unsafe connect(probe.raw, $0, $1) }
    return result != 0 && errno == ECONNREFUSED
  }
}

/// The file of a Unix-domain socket that this process has bound.
///
/// The kernel keeps the file's inode for as long as the socket is open, so no other file gets its number meanwhile.
struct SocketFile {
  private let path: String
  private let device: dev_t
  private let inode: ino_t

  /// The file at `path`, which must have been bound just now; nil if it is gone again.
  init?(_ path: String) {
    guard let status = lstat(path) else { return nil }
    self.path = path
    device = status.st_dev
    inode = status.st_ino
  }

  /// Removes the file, unless another one has taken its place: a successor's socket, or whatever an operator put there.
  func remove() {
    guard let status = lstat(path), status.st_dev == device, status.st_ino == inode else { return }
    unsafe unlink(path)
  }
}

/// What lies where a Unix-domain socket should be, if it is not a socket.
struct PathObstacle: Error, CustomStringConvertible {
  /// A clause for `ListenError`.
  let description: String

  /// Nil if there is a socket, or nothing, at `path`.
  init?(at path: String) {
    guard let status = lstat(path) else { return nil }
    let kind: String
    switch status.st_mode & S_IFMT {
    case S_IFSOCK: return nil
    case S_IFDIR: kind = "a directory"
    case S_IFREG: kind = "a regular file"
    case S_IFIFO: kind = "a FIFO"
    case S_IFLNK:
      var target = stat()
      kind = unsafe stat(path, &target) == 0 ? "a symbolic link" : "a symbolic link to nothing"
    default: kind = "a device"
    }
    description = "there is \(kind) at this path; remove it, or choose another path"
  }
}

/// The file at `path` itself, also if it is a symbolic link.
private func lstat(_ path: String) -> stat? {
  var status = stat()
  return unsafe Glibc.lstat(path, &status) == 0 ? status : nil
}
