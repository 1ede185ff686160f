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
