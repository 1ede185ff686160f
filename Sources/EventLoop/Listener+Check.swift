import Glibc

extension Listener {
  /// Finds out whether an endpoint could be opened. It listens nowhere and leaves no file, so it takes no connection from
  /// a server that runs or starts.
  ///
  /// - Throws: The error of ``open(_:loops:writeProgress:reusesPort:)``.
  public static func check(_ endpoint: Endpoint, reusesPort: Bool) throws(ListenError) {
    do {
      switch endpoint {
      case .tcp(let host, let port): try checkTCP(host, port: port, Opening(loops: 1, reusesPort: reusesPort))
      case .unix(let path): try checkUnix(path)
      case .passed: break
      }
    } catch {
      throw ListenError(endpoint, error)
    }
  }

  private static func checkTCP(_ host: String, port: UInt16, _ opening: Opening) throws {
    var failures: [SocketError] = []
    let addresses = try addresses(of: host, port: port)
    for address in addresses {
      do throws(SocketError) {
        _ = try bound(to: address, opening, sharing: opening.reusesPort)
      } catch {
        // Not every machine has each address of a name.
        guard [EAFNOSUPPORT, EADDRNOTAVAIL].contains(error.code) else { throw error }
        failures.append(error)
      }
    }
    if let failure = failures.last, failures.count == addresses.count { throw failure }
  }

  private static func checkUnix(_ path: String) throws {
    if let obstacle = PathObstacle(at: path) { throw obstacle }
    let address = SocketAddress.unix(path: path)
    var status = stat()
    if unsafe lstat(path, &status) == 0, try !isLeftOver(address) {
      throw SocketError(call: "bind", code: EADDRINUSE)
    }
    let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
    guard unsafe access(folder, W_OK | X_OK) == 0 else { throw SocketError(during: "bind") }
  }
}
