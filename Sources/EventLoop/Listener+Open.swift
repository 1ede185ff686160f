import CPlatform
import Glibc

extension Listener {
  /// Length of the kernel's queue of connections that wait to be accepted; it takes the lesser of this and
  /// `net.core.somaxconn`.
  private static let backlog: Int32 = 4096

  /// Opens an endpoint: for each of its addresses one listener for each of `loops` loops.
  ///
  /// TCP listeners of one address are sockets of their own (`SO_REUSEPORT`), over which the kernel spreads the
  /// connections. A Unix-domain socket is one, shared.
  /// Throws when the name does not resolve, or an address is in use, not this machine's or not permitted.
  public static func open(_ endpoint: Endpoint, loops: Int) throws(ListenError) -> [[Listener]] {
    do {
      switch endpoint {
      case .unix(let path): return [try openUnix(path, loops: loops)]
      case .tcp(let host, let port): return try openTCP(host, port: port, loops: loops)
      }
    } catch let error as SocketError {
      throw ListenError(endpoint: endpoint, reason: advice(for: error))
    } catch let error as ResolutionError {
      throw ListenError(endpoint: endpoint, reason: error.reason)
    } catch {
      throw ListenError(endpoint: endpoint, reason: "\(error)")
    }
  }

  private static func advice(for error: SocketError) -> String {
    switch error.code {
    case EADDRINUSE: "another program listens there already; stop it, or choose another address or port"
    case EADDRNOTAVAIL: "this machine has no such address"
    case EACCES, EPERM: "this user may not; choose a port above 1023 or a writable folder, or give the permission"
    case ENAMETOOLONG: "the path is too long for a Unix-domain socket, which takes 107 bytes"
    default: "\(error)"
    }
  }

  // MARK: TCP

  /// Bytes that the kernel takes for a peer that does not read (it reckons with twice as many for itself). Without it,
  /// it takes megabytes, and keeps them after the connection is closed.
  private static let sendBuffer: Int32 = 65_536

  /// Milliseconds for which sent bytes may stay unacknowledged, or a peer's window closed, before the kernel gives up
  /// (tcp(7)), also on behalf of connections that are closed already.
  private static let unacknowledged: Int32 = 30_000

  private static func openTCP(_ host: String, port: UInt16, loops: Int) throws -> [[Listener]] {
    // IPv4 first, where ports are scarce: a closed connection of any program's keeps its port from a listener on all
    // addresses for a minute. What the system finds there is mostly free for IPv6, the other way round it is not.
    let any = [
      SocketAddress.ip(IPAddress(in_addr(s_addr: 0)), port: port, family: .v4),
      .ip(IPAddress(bits: 0), port: port, family: .v6),
    ]
    let addresses = host == "*" ? any : try resolve(host, port: port)
    // A port that the system picks for the first address may be taken on the next: then it is to pick another.
    for _ in 0..<attempts where port == 0 {
      do {
        return try openTCP(addresses, loops: loops)
      } catch let error as SocketError where error.code == EADDRINUSE {
        continue
      }
    }
    return try openTCP(addresses, loops: loops)
  }

  private static let attempts = 15

  /// Opens those of `addresses` that this machine has, all on the same port.
  static func openTCP(_ addresses: [SocketAddress], loops: Int) throws -> [[Listener]] {
    var found: [[Listener]] = []
    var failure = SocketError(call: "socket", code: EAFNOSUPPORT)
    for address in addresses {
      var address = address
      if let chosen = found.first?.first?.address.port { address = address.withPort(chosen) }
      do {
        found.append(try openTCP(address, loops: loops))
      } catch let error as SocketError where [EAFNOSUPPORT, EADDRNOTAVAIL].contains(error.code) {
        // `localhost` is ::1 as well in many a container that has no IPv6.
        failure = error
      }
    }
    guard !found.isEmpty else { throw failure }
    return found
  }

  private static func openTCP(_ address: SocketAddress, loops: Int) throws -> [Listener] {
    // With SO_REUSEPORT a second server of the same user would bind as well and silently take half of the
    // connections: a first socket without it finds out.
    _ = try bound(to: address, sharing: false)
    var listeners: [Listener] = []
    var address = address
    for _ in 0..<loops {
      let descriptor = try bound(to: address, sharing: loops > 1)
      address = try localAddress(of: descriptor)
      listeners.append(try listening(consume descriptor, at: address))
    }
    return listeners
  }

  private static func bound(to address: SocketAddress, sharing: Bool) throws(SocketError) -> Descriptor {
    let descriptor = try Descriptor.socket(family: address.family)
    try descriptor.set(SOL_SOCKET, SO_REUSEADDR, 1)
    if sharing { try descriptor.set(SOL_SOCKET, SO_REUSEPORT, 1) }
    if address.family == AF_INET6 { try descriptor.set(Int32(IPPROTO_IPV6), IPV6_V6ONLY, 1) }
    // Inherited by every accepted connection: no system call for each.
    try descriptor.set(Int32(IPPROTO_TCP), TCP_NODELAY, 1)
    try descriptor.set(SOL_SOCKET, SO_SNDBUF, sendBuffer)
    #if os(Linux)
      try descriptor.set(Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, unacknowledged)
    #endif
    try bind(descriptor, to: address)
    return descriptor
  }

  private static func localAddress(of descriptor: borrowing Descriptor) throws(SocketError) -> SocketAddress {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let result = unsafe withUnsafeMutablePointer(to: &storage) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        unsafe getsockname(descriptor.raw, address, &length)
      }
    }
    guard result == 0 else { throw SocketError(during: "getsockname") }
    return SocketAddress(storage)
  }

  // MARK: Unix-domain

  /// Owner and group may connect; the folder's permissions decide who else reaches it.
  private static let socketMode: mode_t = 0o660

  private static func openUnix(_ path: String, loops: Int) throws(SocketError) -> [Listener] {
    let address = SocketAddress.unix(path: path)
    let descriptor = try Descriptor.socket(family: AF_UNIX)
    do {
      try bind(descriptor, to: address)
    } catch {
      guard error.code == EADDRINUSE, isSocket(path), try isLeftOver(address) else { throw error }
      unsafe unlink(path)
      try bind(descriptor, to: address)
    }
    unsafe chmod(path, socketMode)
    var listeners: [Listener] = []
    for _ in 1..<max(loops, 1) { listeners.append(try listening(try descriptor.duplicate(), at: address)) }
    // One removes the file at the end: a second time might hit the socket of a successor.
    listeners.append(try listening(consume descriptor, at: address, ownsPath: true))
    return listeners
  }

  /// Whether there is a socket at `path`: to connect to another kind of file is refused as well.
  private static func isSocket(_ path: String) -> Bool {
    var status = stat()
    return unsafe lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFSOCK
  }

  /// Whether the socket file belongs to nobody any more.
  private static func isLeftOver(_ address: SocketAddress) throws(SocketError) -> Bool {
    let probe = try Descriptor.socket(family: AF_UNIX)
    let result = unsafe try address.withSocketAddress { unsafe connect(probe.raw, $0, $1) }
    return result != 0 && errno == ECONNREFUSED
  }

  // MARK: Both

  private static func bind(_ descriptor: borrowing Descriptor, to address: SocketAddress) throws(SocketError) {
    let raw = descriptor.raw
    let result = unsafe try address.withSocketAddress { unsafe Glibc.bind(raw, $0, $1) }
    guard result == 0 else { throw SocketError(during: "bind") }
  }

  private static func listening(
    _ descriptor: consuming Descriptor, at address: SocketAddress, ownsPath: Bool = false
  ) throws(SocketError) -> Listener {
    guard listen(descriptor.raw, backlog) == 0 else { throw SocketError(during: "listen") }
    return Listener(descriptor, at: address, ownsPath: ownsPath)
  }
}

extension SocketAddress {
  fileprivate func withPort(_ port: UInt16) -> SocketAddress {
    guard case .ip(let address, _, let family) = self else { return self }
    return .ip(address, port: port, family: family)
  }
}
