import Glibc

/// Sole owner of a file descriptor: closed when the value ends, never twice.
public struct Descriptor: ~Copyable {
  /// The number the kernel knows it by; valid for as long as this value lives.
  public let raw: Int32

  /// Takes over `raw`. From now on only this descriptor may close it.
  public init(owning raw: Int32) {
    self.raw = raw
  }

  /// A second descriptor of the same open file, closed on exec.
  public borrowing func duplicate() throws(SocketError) -> Descriptor {
    let copy = fcntl(raw, F_DUPFD_CLOEXEC, 0)
    guard copy >= 0 else { throw SocketError(during: "dup") }
    return Descriptor(owning: copy)
  }

  deinit {
    close(raw)
  }

  /// Whether the system grants so many further descriptors at once.
  public static func areAvailable(_ count: Int) -> Bool {
    var opened: [Int32] = []
    defer { for descriptor in opened { close(descriptor) } }
    while opened.count < count {
      // A socket of its own counts against the limits of the process and of the system; a duplicate only against one.
      let descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
      guard descriptor >= 0 else { return false }
      opened.append(descriptor)
    }
    return true
  }
}
