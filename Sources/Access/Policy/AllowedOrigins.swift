public import DeveloperToken

/// The web origins of a client.
public enum AllowedOrigins: Sendable, Equatable {
  /// Any `http` or `https` origin.
  case any
  /// Origins of this machine, `localhost` and loopback addresses, on any port.
  case loopback
  /// These.
  case only([OriginPattern])

  /// None.
  public static let none = AllowedOrigins.only([])

  /// Whether `origin` is one of them.
  public func allows(_ origin: Origin) -> Bool {
    switch self {
    case .any: true
    case .loopback: origin.isLoopback
    case .only(let patterns):
      patterns.contains(.exact(origin))
        || OriginPattern.pattern(of: origin).map { patterns.contains(.anyLabel($0)) } ?? false
    }
  }

  /// Whether there is a list of origins, so that a token without one would be worth more than any of those.
  public var isRestricted: Bool {
    switch self {
    case .any, .loopback: false
    case .only(let patterns): !patterns.isEmpty
    }
  }
}
