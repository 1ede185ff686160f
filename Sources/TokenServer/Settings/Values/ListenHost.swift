import EventLoop

/// The addresses that a listener binds.
public enum ListenHost: Sendable, Hashable, CustomStringConvertible {
  /// `*`: every address, of IPv6 and IPv4, whichever the machine has.
  case any
  /// `localhost`: `127.0.0.1` and `::1`, whichever the machine has.
  case localhost
  /// One IPv4 or IPv6 address, in its usual notation without brackets.
  case address(String)

  /// The host that `text` names; nil if it is a name to be looked up, since what a server binds should not hang on DNS.
  public init?(_ text: String) {
    switch text {
    case "*": self = .any
    case "localhost": self = .localhost
    default:
      guard IPAddress(text) != nil else { return nil }
      self = .address(text)
    }
  }

  /// As it stands in the settings.
  public var description: String {
    switch self {
    case .any: "*"
    case .localhost: "localhost"
    case .address(let address): address
    }
  }

  /// Whether only this machine can reach it.
  public var isLoopback: Bool {
    switch self {
    case .any: false
    case .localhost: true
    case .address(let address): IPAddress(address)?.isLoopback ?? false
    }
  }

  /// An address of this machine that reaches such a listener, ready for a URL.
  public var reachableAuthority: String {
    switch self {
    case .any, .address("0.0.0.0"): "127.0.0.1"
    case .localhost: "localhost"
    case .address("::"): "[::1]"
    case .address(let address): address.utf8.contains(UInt8(ascii: ":")) ? "[\(address)]" : address
    }
  }
}
