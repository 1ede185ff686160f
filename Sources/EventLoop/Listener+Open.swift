import CPlatform
import Glibc

extension Listener {
  /// The length of the kernel's queue, at most `net.core.somaxconn`: what a loop accepts in some 30 ms. In a longer one,
  /// clients give up before the server sees them; the kernel drops further requests, and clients repeat them after 1 s.
  private static let backlog: Int32 = 512

  /// Opens an endpoint, with one listener per address for each of `loops` loops. Each TCP listener of an address has its own
  /// socket (`SO_REUSEPORT`), and the kernel distributes the connections; those of a Unix-domain socket share one.
  /// - Parameters:
  ///   - writeProgress: How long the server waits for a peer that reads nothing of a response. The kernel drops such a
  ///     peer a little later, also for connections that the server has already closed.
  ///   - reusesPort: Whether another process of the same user may listen on the same TCP address, if it also says so.
  /// - Throws: If the name does not resolve, or an address is in use, not this machine's or not permitted.
  package static func open(
    _ endpoint: Endpoint, loops: Int, writeProgress: Duration = .seconds(30), reusesPort: Bool = false
  ) throws(ListenError) -> [[Listener]] {
    let opening = Opening(
      loops: max(loops, 1), reusesPort: reusesPort,
      unacknowledged: Int32(clamping: (writeProgress + margin).wholeNanoseconds / 1_000_000))
    do {
      switch endpoint {
      case .unix(let path): return [try openUnix(path, loops: opening.loops)]
      case .tcp(let host, let port): return try openTCP(host, port: port, opening)
      case .passed(let sockets): return try sockets.map { socket in try open(socket, opening) }
      }
    } catch {
      throw ListenError(endpoint, error)
    }
  }

  /// Checks whether an endpoint could be opened, without listening: it takes no connection from another server.
  package static func check(_ endpoint: Endpoint, reusesPort: Bool) throws(ListenError) {
    do {
      switch endpoint {
      case .tcp(let host, let port):
        try onOwn(try addresses(of: host, port: port)) { address in
          _ = try bound(to: address, Opening(loops: 1), sharing: reusesPort)
        }
      case .unix(let path): try checkUnix(path)
      case .passed: break
      }
    } catch {
      throw ListenError(endpoint, error)
    }
  }

  private static func checkUnix(_ path: String) throws {
    if let obstacle = PathObstacle(at: path) { throw obstacle }
    let address = SocketAddress.unix(path: path)
    if lstat(path) != nil, try !isLeftOver(address) { throw SocketError(call: "bind", code: EADDRINUSE) }
    let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
    guard unsafe access(folder, W_OK | X_OK) == 0 else { throw SocketError(during: "bind") }
  }

  static func advice(for error: SocketError, _ endpoint: Endpoint) -> String {
    switch error.code {
    case EADDRINUSE: "another program listens there already; stop it, or choose another address or port"
    case EADDRNOTAVAIL: "this machine has no such address"
    case EACCES, EPERM: permissionAdvice(endpoint)
    case ENAMETOOLONG: "the path is too long for a Unix-domain socket; the maximum is 107 bytes"
    case EMFILE: "this process has no descriptors left; raise its limit (ulimit -n, LimitNOFILE)"
    case ENFILE: "the system has no descriptors left; raise fs.file-max"
    default: "\(error)"
    }
  }

  private static func permissionAdvice(_ endpoint: Endpoint) -> String {
    switch endpoint {
    case .tcp(_, let port) where port < 1024:
      """
      the system lets only privileged users listen on ports below 1024; choose a port from 1024 to 65535, or give the \
      program the capability CAP_NET_BIND_SERVICE
      """
    case .tcp, .passed: "the system does not permit this user to listen there; choose another address or port"
    case .unix:
      """
      this user may not create a file in that folder; choose a folder that the user may write to, or change the \
      folder's permissions
      """
    }
  }

  /// The bytes that the kernel buffers for a peer that does not read (it reserves twice as much for itself). By default it
  /// buffers megabytes, and keeps them after the connection is closed.
  private static let sendBuffer: Int32 = 65_536
  /// The same while the server does not read: more than the longest header section.
  private static let receiveBuffer: Int32 = 32_768

  /// The common options of the listeners of one endpoint.
  struct Opening {
    let loops: Int
    var reusesPort = false
    /// The milliseconds for which sent bytes may stay unacknowledged, or a peer's window closed, before the kernel drops the
    /// connection (TCP_USER_TIMEOUT, tcp(7)), also a closed one. The server's own deadline must come first.
    var unacknowledged: Int32 = 35_000
  }

  /// The time by which the kernel's timeout exceeds the server's.
  private static let margin = Duration.seconds(5)

  /// Returns the addresses of a host; `*` is every address of this machine.
  static func addresses(of host: String, port: UInt16) throws -> [SocketAddress] {
    // IPv4 first, where ports are scarce: a closed connection of any program blocks its port for a minute for a
    // listener on all addresses. A port that is free for IPv4 is mostly free for IPv6, but not the other way round.
    guard host == "*" else { return try resolve(host, port: port) }
    return [.ip(IPAddress(v4: 0), port: port), .ip(IPAddress(bits: 0), port: port)]
  }

  private static func openTCP(_ host: String, port: UInt16, _ opening: Opening) throws -> [[Listener]] {
    let addresses = try addresses(of: host, port: port)
    // A port that the system picks for the first address may be in use on the next.
    for _ in 0..<attempts where port == 0 {
      do { return try openTCP(addresses, opening) } catch let error as SocketError where error.code == EADDRINUSE {}
    }
    return try openTCP(addresses, opening)
  }

  private static let attempts = 15

  /// Opens those of `addresses` that belong to this machine, all on the same port.
  static func openTCP(_ addresses: [SocketAddress], _ opening: Opening) throws -> [[Listener]] {
    var found: [[Listener]] = []
    try onOwn(addresses) { address in
      var address = address
      if let chosen = found.first?.first?.address.port, let ip = address.ipAddress { address = .ip(ip, port: chosen) }
      found.append(try openTCP(address, opening))
    }
    return found
  }

  /// Calls `open` with each address. This machine must have one: `localhost` is also ::1 in containers without IPv6.
  private static func onOwn(_ addresses: [SocketAddress], _ open: (SocketAddress) throws -> Void) throws {
    var hasOne = false
    var failure = SocketError(call: "socket", code: EAFNOSUPPORT)
    for address in addresses {
      do {
        try open(address)
        hasOne = true
      } catch let error as SocketError where [EAFNOSUPPORT, EADDRNOTAVAIL].contains(error.code) { failure = error }
    }
    guard hasOne else { throw failure }
  }

  private static func openTCP(_ address: SocketAddress, _ opening: Opening) throws -> [Listener] {
    // With SO_REUSEPORT a second server of the same user would also bind, and silently take half of the connections. A
    // first socket without the option detects this, unless a successor is allowed to bind.
    if !opening.reusesPort { _ = try bound(to: address, opening, sharing: false) }
    var listeners: [Listener] = []
    var address = address
    for _ in 0..<opening.loops {
      let descriptor = try bound(to: address, opening, sharing: opening.loops > 1 || opening.reusesPort)
      address = try SocketAddress(of: descriptor.raw)
      listeners.append(try listening(consume descriptor, at: address))
    }
    return listeners
  }

  static func bound(to address: SocketAddress, _ opening: Opening, sharing: Bool) throws(SocketError) -> Descriptor {
    let descriptor = try Descriptor.socket(family: address.family)
    try descriptor.set(SOL_SOCKET, SO_REUSEADDR, 1)
    if sharing { try descriptor.set(SOL_SOCKET, SO_REUSEPORT, 1) }
    if address.family == AF_INET6 { try descriptor.set(Int32(IPPROTO_IPV6), IPV6_V6ONLY, 1) }
    try setOptions(of: descriptor, opening)
    try bind(descriptor, to: address)
    return descriptor
  }

  /// Sets the options that every accepted connection inherits, which saves system calls.
  static func setOptions(of descriptor: borrowing Descriptor, _ opening: Opening) throws(SocketError) {
    try descriptor.set(Int32(IPPROTO_TCP), TCP_NODELAY, 1)
    try descriptor.set(SOL_SOCKET, SO_SNDBUF, sendBuffer)
    try descriptor.set(SOL_SOCKET, SO_RCVBUF, receiveBuffer)
    try descriptor.set(Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, opening.unacknowledged)
  }

  static func bind(_ descriptor: borrowing Descriptor, to address: SocketAddress) throws(SocketError) {
    let raw = descriptor.raw
    let result = unsafe try address.withSocketAddress { unsafe Glibc.bind(raw, $0, $1) }
    guard result == 0 else { throw SocketError(during: "bind") }
  }

  static func listening(
    _ descriptor: consuming Descriptor, at address: SocketAddress, _ origin: Origin = .ownSocket
  ) throws(SocketError) -> Listener {
    guard listen(descriptor.raw, backlog) == 0 else { throw SocketError(during: "listen") }
    return Listener(descriptor, at: address, origin)
  }

  /// The mode of the socket file: owner and group may connect. The folder's permissions decide who else can reach it.
  private static let socketMode: mode_t = 0o660

  /// Opens a Unix-domain socket, and replaces a socket file without a listening process.
  static func openUnix(_ path: String, loops: Int) throws -> [Listener] {
    let address = SocketAddress.unix(path: path)
    let descriptor = try Descriptor.socket(family: AF_UNIX)
    do {
      try bindFile(descriptor, to: address)
    } catch {
      guard error.code == EADDRINUSE else { throw error }
      if let obstacle = PathObstacle(at: path) { throw obstacle }
      guard try isLeftOver(address) else { throw error }
      unsafe unlink(path)
      try bindFile(descriptor, to: address)
    }
    let file = SocketFile(path)
    var listeners: [Listener] = []
    for _ in 1..<loops { listeners.append(try listening(try descriptor.duplicate(), at: address, .file(nil))) }
    // Only this listener removes the file.
    listeners.append(try listening(consume descriptor, at: address, .file(file)))
    return listeners
  }

  /// Binds a socket whose file has ``socketMode`` from its first moment: a chmod(2) afterwards would leave a moment for users
  /// that it excludes, and could change another file that has taken the path. The umask belongs to the process: other
  /// threads create no files at the start, and this mask takes every right of other users.
  private static func bindFile(_ descriptor: borrowing Descriptor, to address: SocketAddress) throws(SocketError) {
    let previous = umask(0o777 & ~socketMode)
    defer { umask(previous) }
    try bind(descriptor, to: address)
  }

  /// Returns whether no process listens on the socket at this address.
  static func isLeftOver(_ address: SocketAddress) throws(SocketError) -> Bool {
    let probe = try Descriptor.socket(family: AF_UNIX)
    let result = unsafe try address.withSocketAddress { unsafe connect(probe.raw, $0, $1) }
    return result != 0 && errno == ECONNREFUSED
  }
}

/// The file of a Unix-domain socket that this process has bound. No other file gets its inode while the socket is open.
struct SocketFile {
  private let path: String
  private let status: stat

  /// Identifies the file at `path`, which must have been bound just now. Returns nil if it is already gone.
  init?(_ path: String) {
    guard let status = lstat(path) else { return nil }
    (self.path, self.status) = (path, status)
  }

  /// Removes the file, unless another file has replaced it: a successor's socket, or a file of the operator.
  func remove() {
    guard let present = lstat(path), present.st_dev == status.st_dev, present.st_ino == status.st_ino else { return }
    unsafe unlink(path)
  }
}

/// A file other than a socket at the path for a Unix-domain socket.
struct PathObstacle: Error, CustomStringConvertible {
  let description: String

  /// Returns nil if there is a socket, or nothing, at `path`.
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

/// Returns the status of the file at `path` itself, also if it is a symbolic link.
private func lstat(_ path: String) -> stat? {
  var status = stat()
  return unsafe Glibc.lstat(path, &status) == 0 ? status : nil
}

package struct ListenError: Error, Equatable, CustomStringConvertible {
  package let endpoint: Endpoint
  /// The reason, and how to fix it.
  package let reason: String
  package var isTaken = false
  /// Whether a later attempt may succeed: another program listens on the address, or the machine has no such one yet.
  package var isTemporary = false

  init(_ endpoint: Endpoint, _ error: any Error) {
    self.endpoint = endpoint
    switch error {
    case let error as SocketError:
      reason = Listener.advice(for: error, endpoint)
      isTaken = error.code == EADDRINUSE
      isTemporary = isTaken || error.code == EADDRNOTAVAIL
    case let error as ResolutionError: reason = error.reason
    default: reason = "\(error)"
    }
  }

  package var description: String { "Cannot listen on \(endpoint): \(reason)." }
}
