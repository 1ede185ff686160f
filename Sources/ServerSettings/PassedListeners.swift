import Bytes
package import EventLoop

/// The sockets that the service manager has passed, for each listener of the server.
package struct PassedListeners: Sendable, Equatable {
  /// The sockets of the public listener. Empty if the server opens it.
  package var `public`: [PassedSocket] = []
  /// The sockets of the admin listener. Empty if the server opens it.
  package var admin: [PassedSocket] = []

  /// No socket: the server opens its listeners.
  package static let none = PassedListeners()

  private init() {}

  /// Divides sockets by their names. A socket without a name is the public listener's.
  ///
  /// - Throws: `PassedSocketError` for any other name, and for a socket that is passed twice: callers would reach the
  ///   admin listener, or each connection would reach either listener by chance.
  package init(_ sockets: [PassedSocket]) throws(PassedSocketError) {
    for (index, socket) in sockets.enumerated() {
      if let earlier = sockets[..<index].first(where: { $0.isSameSocket(as: socket) }) {
        throw PassedSocketError(
          """
          The service manager passes the same socket, \(socket.address), twice, with the names \(Self.name(earlier)) \
          and \(Self.name(socket)); give each listener a socket unit of its own.
          """)
      }
      switch socket.name {
      case nil, "public": `public`.append(socket)
      case "admin": admin.append(socket)
      case let name?:
        throw PassedSocketError(
          """
          The service manager passes a socket with the name \(quoted(name)); write FileDescriptorName=public or \
          FileDescriptorName=admin in the socket unit.
          """)
      }
    }
  }

  /// The warnings that every user of this machine may connect to a Unix-domain socket.
  var warnings: [String] {
    (`public` + admin).compactMap { socket in
      socket.modeOpenToAll.map { mode in
        "Every user of this machine may connect to the passed socket \(socket.address) (mode "
          + "\(FilePermissions.octal(mode))), and counts as a trusted proxy there. Write SocketMode=0660 in its unit."
      }
    }
  }

  private static func name(_ socket: PassedSocket) -> String { quoted(socket.name ?? "public") }
}
