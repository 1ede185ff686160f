import Glibc

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
