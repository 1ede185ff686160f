import Glibc

/// No connection to a host could be made.
public struct ConnectError: Error, Sendable, Equatable, CustomStringConvertible {
  /// What stood in the way.
  public enum Cause: Sendable, Equatable {
    /// The name does not resolve.
    case unknownHost
    /// The resolver did not answer in time.
    case resolverTimedOut
    /// The host answered, and refused.
    case refused
    /// There is no way to it.
    case unroutable
    /// The host did not answer in time.
    case timedOut
    /// This system refused for another reason, for example because it has no free descriptors.
    case failed
  }

  /// What stood in the way.
  public let cause: Cause
  /// One sentence: the host, and what happened with each of its addresses.
  public let description: String

  init(_ cause: Cause, _ description: String) {
    self.cause = cause
    self.description = description
  }

  /// What came of all addresses of `host`; the first one that says most decides about the cause.
  init(_ host: String, _ failures: [(address: SocketAddress, error: SocketError)]) {
    let causes = failures.map { Cause($0.error) }
    let found = [Cause.refused, .timedOut, .unroutable, .failed].first { causes.contains($0) } ?? .failed
    let list = failures.prefix(4).map { "\($0.address): \($0.error)" }.joined(separator: "; ")
    self.init(found, "No connection to \(host) (\(failures.isEmpty ? "it has no addresses" : list)).")
  }
}

extension ConnectError.Cause {
  fileprivate init(_ error: SocketError) {
    self =
      switch error.code {
      case ECONNREFUSED, ECONNRESET: .refused
      case ENETUNREACH, EHOSTUNREACH, ENETDOWN, EHOSTDOWN, EADDRNOTAVAIL, EAFNOSUPPORT: .unroutable
      case ETIMEDOUT: .timedOut
      default: .failed
      }
  }
}
