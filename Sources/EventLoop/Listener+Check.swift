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
    } catch let error as SocketError {
      throw ListenError(
        endpoint: endpoint, reason: advice(for: error, endpoint), isTaken: error.code == EADDRINUSE)
    } catch let error as ResolutionError {
      throw ListenError(endpoint: endpoint, reason: error.reason)
    } catch {
      throw ListenError(endpoint: endpoint, reason: "\(error)")
    }
  }

  private static func checkTCP(_ host: String, port: UInt16, _ opening: Opening) throws {
    var failures: [SocketError] = []
    let addresses = try addresses(of: host, port: port)
    for address in addresses {
      guard let failure = failure(to: address, opening) else { continue }
      // Not every machine has each address of a name.
      guard [EAFNOSUPPORT, EADDRNOTAVAIL].contains(failure.code) else { throw failure }
      failures.append(failure)
    }
    if let failure = failures.last, failures.count == addresses.count { throw failure }
  }

  private static func failure(to address: SocketAddress, _ opening: Opening) -> SocketError? {
    do throws(SocketError) {
      _ = try bound(to: address, opening, sharing: opening.reusesPort)
      return nil
    } catch {
      return error
    }
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
