import Glibc

/// A listening socket that a service manager has opened and passed to this process (sd_listen_fds(3)). It keeps the socket,
/// so connections that are not accepted yet wait for the next process.
package struct PassedSocket: Sendable, Hashable {
  /// The kernel's number. The listeners that open the socket own it from then on.
  let descriptor: Int32
  /// The name that the service manager gives the socket (`FileDescriptorName=`), or nil for none.
  package let name: String?
  package let address: SocketAddress

  /// The number of the first passed descriptor, SD_LISTEN_FDS_START.
  private static let first: Int32 = 3

  /// Takes the passed sockets, and removes their variables from the environment, so that no child believes that they are
  /// for it. Call it once, while there is one thread. Throws if a descriptor or a variable is invalid.
  package static func take() throws(PassedSocketError) -> [PassedSocket] {
    let process = takeVariable("LISTEN_PID")
    let number = takeVariable("LISTEN_FDS")
    let names = takeVariable("LISTEN_FDNAMES")
    // Another number is that of an ancestor, which has passed on its environment.
    guard let process, Int32(process) == getpid(), let number else { return [] }
    guard let count = Int32(number), count >= 0, count <= .max - first else {
      throw PassedSocketError("LISTEN_FDS is not a number of descriptors; start the server without it.")
    }
    let list = names.map { $0.split(separator: ":", omittingEmptySubsequences: false).map(String.init) }
    if let list, list.count != count {
      throw PassedSocketError(
        "LISTEN_FDNAMES has \(list.count) names, and LISTEN_FDS counts \(count) descriptors; set both, or only the last."
      )
    }
    return try (0..<count).map { index throws(PassedSocketError) in
      // `unknown` is the manual page's word for a socket without a name.
      let name = list?[Int(index)]
      return try PassedSocket(first + index, name: name == "" || name == "unknown" ? nil : name)
    }
  }

  /// Checks a descriptor, makes it non-blocking, and closes it on exec.
  init(_ descriptor: Int32, name: String?) throws(PassedSocketError) {
    guard let address = Self.listeningAddress(of: descriptor) else {
      throw PassedSocketError(
        """
        The service manager passes descriptor \(descriptor), which is not a listening stream socket of IPv4, IPv6 or \
        Unix; write ListenStream= and Accept=no in the socket unit.
        """)
    }
    let flags = fcntl(descriptor, F_GETFL)
    guard flags >= 0, fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0, fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0
    else { throw PassedSocketError("Descriptor \(descriptor) cannot be used: \(SocketError(during: "fcntl")).") }
    (self.descriptor, self.name, self.address) = (descriptor, name, address)
  }

  /// The mode of a Unix-domain socket's file if every user may connect (unix(7)): systemd's own `SocketMode=` is 0666.
  package var modeOpenToAll: UInt32? {
    guard case .unix(let path) = address else { return nil }
    var (file, folder) = (stat(), stat())
    let parent = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    guard unsafe stat(path, &file) == 0, file.st_mode & 0o002 != 0 else { return nil }
    guard unsafe stat(parent, &folder) == 0, folder.st_mode & 0o001 == 0 else { return file.st_mode & 0o7777 }
    return nil
  }

  /// Returns whether both descriptors are of one socket: connections to it reach either of them.
  package func isSameSocket(as other: PassedSocket) -> Bool {
    var (mine, others) = (stat(), stat())
    return unsafe fstat(descriptor, &mine) == 0 && fstat(other.descriptor, &others) == 0
      && mine.st_dev == others.st_dev && mine.st_ino == others.st_ino
  }

  private static func takeVariable(_ name: String) -> String? {
    defer { unsafe unsetenv(name) }
    return unsafe getenv(name).map { unsafe String(cString: $0) }
  }

  /// Returns the address of a listening stream socket, or nil for any other descriptor.
  private static func listeningAddress(of descriptor: Int32) -> SocketAddress? {
    guard Descriptor.option(SO_TYPE, of: descriptor) == Descriptor.stream,
      Descriptor.option(SO_ACCEPTCONN, of: descriptor) == 1
    else { return nil }
    return try? SocketAddress(of: descriptor)
  }
}

/// The error when the service manager passes descriptors that the server cannot use.
package struct PassedSocketError: Error, Equatable, CustomStringConvertible {
  package let description: String

  package init(_ description: String) { self.description = description }
}

extension Listener {
  /// Opens a listener for each loop on a bound socket, which keeps its backlog; connections inherit the other options.
  static func open(_ socket: PassedSocket, _ opening: Opening) throws(SocketError) -> [Listener] {
    let descriptor = Descriptor(owning: socket.descriptor)
    if socket.address.ipAddress != nil { try setOptions(of: descriptor, opening) }
    let origin = Listener.Origin.passed(ListenerGroup(of: opening.loops))
    var listeners: [Listener] = []
    for _ in 1..<opening.loops { listeners.append(Listener(try descriptor.duplicate(), at: socket.address, origin)) }
    listeners.append(Listener(descriptor, at: socket.address, origin))
    return listeners
  }
}
