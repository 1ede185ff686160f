public import DeveloperToken

/// The web origins that a caller may name.
public enum AllowedOrigins: Sendable, Equatable {
  /// Any `http` or `https` origin.
  case any
  /// Origins of this machine, `localhost` and loopback addresses, on any port.
  case loopback
  /// These.
  case only([Origin])

  /// Whether `origin` is one of them.
  public func allows(_ origin: Origin) -> Bool {
    switch self {
    case .any: true
    case .loopback: origin.isLoopback
    case .only(let origins): origins.contains(origin)
    }
  }
}
