import Glibc

/// Sole owner of a file descriptor: closed when the value ends, never twice.
public struct Descriptor: ~Copyable {
  /// The number the kernel knows it by; valid for as long as this value lives.
  public let raw: Int32

  /// Takes over `raw`, which nobody else may close from now on.
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
}
