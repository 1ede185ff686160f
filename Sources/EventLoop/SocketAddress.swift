import Bytes
import CPlatform
import Glibc

/// The address of a socket or of its peer.
public enum SocketAddress: Sendable, Hashable, CustomStringConvertible {
  case ip(IPAddress, port: UInt16)
  /// A Unix-domain socket. The path is empty for a client that did not bind a path.
  case unix(path: String)
  /// The IP address, or nil for a Unix-domain socket.
  public var ipAddress: IPAddress? { if case .ip(let address, _) = self { address } else { nil } }
  /// The TCP port, or nil for a Unix-domain socket.
  public var port: UInt16? { if case .ip(_, let port) = self { port } else { nil } }

  /// The address as text, such as `127.0.0.1:8080`, `[::1]:8080` or `unix:/run/server.sock`.
  public var description: String {
    switch self {
    case .ip(let address, let port): address.isIPv4 ? "\(address):\(port)" : "[\(address)]:\(port)"
    case .unix(let path): "unix:\(path)"
    }
  }

  var family: Int32 {
    switch self {
    case .ip(let address, _): address.isIPv4 ? AF_INET : AF_INET6
    case .unix: AF_UNIX
    }
  }

  init(_ storage: sockaddr_storage) {
    switch Int32(storage.ss_family) {
    case AF_INET:
      let address = unsafe unsafeBitCast(storage, reading: sockaddr_in.self)
      self = .ip(IPAddress(v4: UInt32(bigEndian: address.sin_addr.s_addr)), port: UInt16(bigEndian: address.sin_port))
    case AF_INET6:
      let address = unsafe unsafeBitCast(storage, reading: sockaddr_in6.self)
      let bits = unsafe UInt128(bigEndian: unsafeBitCast(address.sin6_addr, to: UInt128.self))
      self = .ip(IPAddress(bits: bits), port: UInt16(bigEndian: address.sin6_port))
    default:
      self = .unix(path: "")
    }
  }

  /// Returns the address that a socket is bound to. Throws if `raw` is no socket of IPv4, IPv6 or Unix.
  init(of raw: Int32) throws(SocketError) {
    var storage = sockaddr_storage()
    var length = 0
    let result = unsafe storage.withPointer { address, room in
      defer { unsafe length = Int(room.pointee) }
      return unsafe getsockname(raw, address, room)
    }
    guard result == 0 else { throw SocketError(during: "getsockname") }
    switch Int32(storage.ss_family) {
    case AF_INET, AF_INET6: self = SocketAddress(storage)
    case AF_UNIX:
      let path = unsafe withUnsafeBytes(of: storage) { bytes in
        unsafe Array(bytes.prefix(length).dropFirst(MemoryLayout<sa_family_t>.size))
      }
      // An abstract name begins with NUL (unix(7)), and systemd writes it with an @.
      let isAbstract = path.count > 1 && path[0] == 0
      let name = isAbstract ? path.dropFirst() : path.prefix { $0 != 0 }
      self = .unix(path: (isAbstract ? "@" : "") + String(decoding: name, as: UTF8.self))
    default: throw SocketError(call: "getsockname", code: EAFNOSUPPORT)
    }
  }

  /// Calls `body` with the address in the kernel's format.
  func withSocketAddress<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) throws(SocketError) -> Result {
    switch self {
    case .ip(let address, let port) where address.isIPv4:
      var place = sockaddr_in()
      place.sin_family = sa_family_t(AF_INET)
      place.sin_port = port.bigEndian
      place.sin_addr.s_addr = UInt32(truncatingIfNeeded: address.bits).bigEndian
      return unsafe withPointer(to: place, body)
    case .ip(let address, let port):
      var place = sockaddr_in6()
      place.sin6_family = sa_family_t(AF_INET6)
      place.sin6_port = port.bigEndian
      place.sin6_addr = unsafe unsafeBitCast(address.bits.bigEndian, to: in6_addr.self)
      return unsafe withPointer(to: place, body)
    case .unix(let path): return unsafe withPointer(to: try sockaddr_un(path: path), body)
    }
  }

  @unsafe private func withPointer<Address, Result>(
    to address: Address, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
  ) -> Result {
    unsafe withUnsafePointer(to: address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        unsafe body(address, socklen_t(MemoryLayout<Address>.size))
      }
    }
  }
}

/// Returns the leading bytes of `storage` as another `sockaddr` type, which is always smaller than the storage.
@unsafe private func unsafeBitCast<Address>(_ storage: sockaddr_storage, reading type: Address.Type) -> Address {
  unsafe withUnsafeBytes(of: storage) { bytes in unsafe bytes.loadUnaligned(as: type) }
}

extension sockaddr_storage {
  /// Calls `body` with the storage for an address, and the length of that.
  @unsafe mutating func withPointer(
    _ body: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32
  ) -> Int32 {
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    return unsafe withUnsafeMutablePointer(to: &self) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe body($0, &length) }
    }
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

/// The address of a listener.
package enum Endpoint: Sendable, Hashable, CustomStringConvertible {
  /// A TCP port. `host` is an address, a name, or `*` for IPv6 and IPv4, whichever exist. Of a name's addresses, only
  /// those of this machine are used. For port 0 the system picks a free port, the same for all addresses.
  case tcp(host: String, port: UInt16)
  /// A Unix-domain socket at a path. A socket file of a process that has ended is replaced.
  case unix(path: String)
  /// Sockets that the service manager has opened.
  case passed([PassedSocket])

  package var description: String {
    switch self {
    case .tcp(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    case .unix(let path): "unix:\(path)"
    case .passed(let sockets): sockets.map { "\($0.address)" }.joined(separator: ", ")
    }
  }
}

/// An IPv4 or IPv6 address. An IPv4 address equals its mapping into IPv6 (RFC 4291 §2.5.5.2), so that a rule covers both.
public struct IPAddress: Sendable, Hashable, CustomStringConvertible {
  /// The 128 bits of an IPv6 address, or of an IPv4 address as `::ffff:a.b.c.d`.
  public let bits: UInt128

  /// Creates the address of these 128 bits, most significant first.
  public init(bits: UInt128) { self.bits = bits }

  /// Creates the IPv4 address of these 32 bits, most significant first.
  public init(v4: UInt32) { bits = 0xffff_0000_0000 | UInt128(v4) }

  /// Parses an address such as `192.0.2.1` or `2001:db8::1`, without brackets or zone.
  public init?(_ text: String) {
    guard let address = Self(Array(text.utf8).span) else { return nil }
    self = address
  }

  /// Parses an address in ASCII. Allocates nothing.
  public init?(_ text: Span<UInt8>) {
    if let address = text.ipv4Address {
      self.init(v4: address)
    } else if let address = text.ipv6Address {
      self.init(bits: address)
    } else {
      return nil
    }
  }

  /// Whether this is an IPv4 address.
  public var isIPv4: Bool { bits >> 32 == 0xffff }
  /// Whether this is an address of the local machine only: `127.0.0.0/8` or `::1`.
  public var isLoopback: Bool { isIPv4 ? UInt8(truncatingIfNeeded: bits >> 24) == 127 : bits == 1 }
  /// The smallest range that a provider assigns to one customer: an IPv4 address, or the /64 of an IPv6 address.
  public var rateLimitPrefix: IPAddress { isIPv4 ? self : IPAddress(bits: (bits >> 64) << 64) }

  /// The text of `inet_ntop`, with IPv4 in dotted form, which fits into a string without heap memory.
  public var description: String {
    // Each new connection has its text made, and the C library makes that of IPv4 with sprintf.
    isIPv4 ? dottedQuad : String(ipv6: bits)
  }

  private var dottedQuad: String {
    unsafe String(unsafeUninitializedCapacity: 15) { buffer in
      // Safe: four numbers of at most three digits and three dots are 15 bytes.
      var output = unsafe OutputSpan(buffer: buffer, initializedCount: 0)
      for shift in stride(from: 24, through: 0, by: -8) {
        output.append(decimal: Int(UInt8(truncatingIfNeeded: bits >> shift)))
        if shift > 0 { output.append(UInt8(ascii: ".")) }
      }
      return unsafe output.finalize(for: buffer)
    }
  }
}

/// A range of IP addresses in CIDR notation (RFC 4632, RFC 4291 §2.3): `10.0.0.0/8`, `2001:db8::/32`, or one address.
public struct AddressRange: Sendable, Hashable, CustomStringConvertible {
  /// The range as it was written.
  public let description: String

  private let first: IPAddress
  /// The number of significant leading bits, of 128.
  private let prefixLength: Int

  /// Parses a range. Returns nil if `text` is not a range, or has bits set beyond its prefix.
  public init?(_ text: String) {
    let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
    guard let first = IPAddress(String(parts[0])) else { return nil }
    let width = parts[0].utf8.contains(UInt8(ascii: ":")) ? 128 : 32
    var length = width
    if parts.count == 2 {
      guard parts[1].utf8.allSatisfy({ (0x30...0x39).contains($0) }), let written = Int(parts[1]), written <= width
      else { return nil }
      length = written
    }
    self.first = first
    prefixLength = length + 128 - width
    description = text
    guard first.bits & ~mask == 0 else { return nil }
  }

  /// Returns whether `address` is in the range.
  public func contains(_ address: IPAddress) -> Bool { address.bits & mask == first.bits }

  // A shift by the full width returns 0 in Swift, which is the mask of length 0.
  private var mask: UInt128 { UInt128.max << UInt128(128 - prefixLength) }
}
