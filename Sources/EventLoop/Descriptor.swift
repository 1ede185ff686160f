import Glibc

/// Sole owner of a file descriptor: closed when the value ends, never twice.
public struct Descriptor: ~Copyable, Sendable {
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

extension Descriptor {
  /// A socket for a stream, non-blocking and closed on exec from its first moment.
  static func socket(family: Int32) throws(SocketError) -> Descriptor {
    let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    let raw = Glibc.socket(family, type, 0)
    guard raw >= 0 else { throw SocketError(during: "socket") }
    return Descriptor(owning: raw)
  }

  /// Sets a socket option that is a number.
  borrowing func set(_ level: Int32, _ option: Int32, _ value: Int32) throws(SocketError) {
    var value = value
    guard unsafe setsockopt(raw, level, option, &value, socklen_t(MemoryLayout<Int32>.size)) == 0 else {
      throw SocketError(during: "setsockopt")
    }
  }
}

extension SocketAddress {
  /// The address family, as socket(2) wants it.
  var family: Int32 {
    switch self {
    case .ip(_, _, .v4): AF_INET
    case .ip(_, _, .v6): AF_INET6
    case .unix: AF_UNIX
    }
  }
}

/// A system call on a socket failed: which one, and why.
public struct SocketError: Error, Equatable, CustomStringConvertible {
  /// Name of the call, as in its manual page.
  public let call: String

  /// The `errno` that it left.
  public let code: Int32

  /// Takes `errno` as the call that has just failed left it.
  public init(during call: String) {
    self.call = call
    self.code = errno
  }

  /// An error with a code known already.
  public init(call: String, code: Int32) {
    self.call = call
    self.code = code
  }

  /// `bind: Address already in use`.
  public var description: String {
    // strerror is thread-safe in glibc since 2.32, and never null.
    let text = unsafe String(cString: strerror(code))
    return "\(call): \(text)"
  }
}
