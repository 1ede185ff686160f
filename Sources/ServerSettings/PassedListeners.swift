public import EventLoop

/// The sockets that the service manager has passed, for each listener of the server.
public struct PassedListeners: Sendable, Equatable {
  /// The sockets of the public listener. Empty if the server opens it.
  public var `public`: [PassedSocket] = []
  /// The sockets of the admin listener. Empty if the server opens it.
  public var admin: [PassedSocket] = []

  /// No socket: the server opens its listeners.
  public static let none = PassedListeners()

  private init() {}

  /// Divides sockets by their names. A socket without a name is the public listener's.
  ///
  /// - Throws: `PassedSocketError` for any other name.
  public init(_ sockets: [PassedSocket]) throws(PassedSocketError) {
    for socket in sockets {
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
}
