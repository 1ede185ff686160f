import CPlatform
import Glibc

/// Where a socket is bound, or who is at its other end.
public enum SocketAddress: Sendable, Hashable, CustomStringConvertible {
  /// A TCP address.
  case ip(IPAddress, port: UInt16, family: Family)
  /// A Unix-domain socket; the path is empty for a client that did not bind its own.
  case unix(path: String)

  /// Which of the two kinds of IP socket.
  public enum Family: Sendable { case v4, v6 }

  /// The IP address, nil for a Unix-domain socket.
  public var ipAddress: IPAddress? {
    guard case .ip(let address, _, _) = self else { return nil }
    return address
  }

  /// The TCP port, nil for a Unix-domain socket.
  public var port: UInt16? {
    guard case .ip(_, let port, _) = self else { return nil }
    return port
  }

  /// `127.0.0.1:8080`, `[::1]:8080` or `unix:/run/server.sock`.
  public var description: String {
    switch self {
    case .ip(let address, let port, _): address.isIPv4 ? "\(address):\(port)" : "[\(address)]:\(port)"
    case .unix(let path): "unix:\(path)"
    }
  }

  /// Reads what the kernel filled in.
  init(_ storage: sockaddr_storage) {
    switch Int32(storage.ss_family) {
    case AF_INET:
      let address = unsafe unsafeBitCast(storage, reading: sockaddr_in.self)
      self = .ip(IPAddress(address.sin_addr), port: UInt16(bigEndian: address.sin_port), family: .v4)
    case AF_INET6:
      let address = unsafe unsafeBitCast(storage, reading: sockaddr_in6.self)
      self = .ip(IPAddress(address.sin6_addr), port: UInt16(bigEndian: address.sin6_port), family: .v6)
    default:
      self = .unix(path: "")
    }
  }

  /// Calls `body` with the address as the kernel wants it.
  func withSocketAddress<Result>(
    _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
  ) throws(SocketError) -> Result {
    var storage = sockaddr_storage()
    let length: Int
    switch self {
    case .ip(let address, let port, .v4):
      let value = sockaddr_in(address, port: port)
      length = unsafe storage.write(value)
    case .ip(let address, let port, .v6):
      let value = sockaddr_in6(address, port: port)
      length = unsafe storage.write(value)
    case .unix(let path):
      let value = try sockaddr_un(path: path)
      length = unsafe storage.write(value)
    }
    return unsafe withUnsafePointer(to: &storage) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        unsafe body(address, socklen_t(length))
      }
    }
  }
}

/// The leading bytes of `storage` as another of the `sockaddr` family; each of these is smaller than the storage.
@unsafe private func unsafeBitCast<Address>(_ storage: sockaddr_storage, reading type: Address.Type) -> Address {
  unsafe withUnsafeBytes(of: storage) { bytes in unsafe bytes.loadUnaligned(as: type) }
}

extension sockaddr_storage {
  @unsafe fileprivate mutating func write<Address>(_ address: Address) -> Int {
    unsafe withUnsafeMutableBytes(of: &self) { storage in
      unsafe withUnsafeBytes(of: address) { bytes in unsafe storage.copyMemory(from: bytes) }
    }
    return MemoryLayout<Address>.size
  }
}

extension sockaddr_in {
  fileprivate init(_ address: IPAddress, port: UInt16) {
    self.init()
    sin_family = sa_family_t(AF_INET)
    sin_port = port.bigEndian
    sin_addr = address.v4
  }
}

extension sockaddr_in6 {
  fileprivate init(_ address: IPAddress, port: UInt16) {
    self.init()
    sin6_family = sa_family_t(AF_INET6)
    sin6_port = port.bigEndian
    sin6_addr = address.v6
  }
}

extension sockaddr_un {
  fileprivate init(path: String) throws(SocketError) {
    self.init()
    sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(path.utf8)
    let fits = unsafe withUnsafeMutableBytes(of: &sun_path) { room in
      guard bytes.count < room.count else { return false }
      unsafe room.copyBytes(from: bytes)
      return true
    }
    guard fits else { throw SocketError(call: "bind", code: ENAMETOOLONG) }
  }
}

/// What to listen on.
public enum Endpoint: Sendable, Hashable, CustomStringConvertible {
  /// A TCP port. `host` is an address, a name, or `*` for IPv6 and IPv4, whichever exist; of a name's addresses those
  /// that the machine has. Port 0 picks a free one, the same for all.
  case tcp(host: String, port: UInt16)
  /// A Unix-domain socket at a path. A socket file left over from a process that is gone is replaced.
  case unix(path: String)

  /// `127.0.0.1:8080`, `[::1]:8080` or `unix:/run/server.sock`.
  public var description: String {
    switch self {
    case .tcp(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    case .unix(let path): "unix:\(path)"
    }
  }
}
