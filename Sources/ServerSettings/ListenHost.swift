import EventLoop

/// The host of a listener, which needs no lookup: a server should not depend on DNS to bind.
package enum ListenHost: Sendable, Hashable, CustomStringConvertible {
  /// `*`: every address of IPv6 and IPv4 that the machine has.
  case any
  /// `localhost`: `127.0.0.1` and `::1`, if the machine has them.
  case localhost
  /// One IPv4 or IPv6 address in the usual notation, without brackets.
  case address(String)

  package init?(_ text: String) {
    switch text {
    case "*": self = .any
    case "localhost": self = .localhost
    default:
      guard let address = IPAddress(text), address.canListen, !address.isIPv4 || !text.contains(":") else { return nil }
      self = .address("\(address)")
    }
  }

  package var description: String {
    switch self {
    case .any: "*"
    case .localhost: "localhost"
    case .address(let address): address
    }
  }

  /// The addresses on which the server listens if the machine has them.
  var addresses: [IPAddress] {
    switch self {
    case .any: IPAddress.unspecified
    case .localhost: ["::1", "127.0.0.1"].compactMap { IPAddress($0) }
    case .address(let text): IPAddress(text).map { [$0] } ?? []
    }
  }

  package var isLoopback: Bool { addresses.first?.isLoopback ?? false }
  var isEveryAddress: Bool { addresses.contains(where: IPAddress.unspecified.contains) }

  /// An address with which this machine can reach the listener, in the form of a URL's authority.
  package var reachableAuthority: String {
    switch self {
    case .any, .address("0.0.0.0"): "127.0.0.1"
    case .localhost: "localhost"
    case .address("::"): "[::1]"
    case .address(let address): address.utf8.contains(UInt8(ascii: ":")) ? "[\(address)]" : address
    }
  }
}

extension IPAddress {
  /// Every address of the machine, of IPv6 and of IPv4.
  static let unspecified = [IPAddress(bits: 0), IPAddress(v4: 0)]

  /// Whether a socket can listen on the address alone: no group of machines, and none that needs a zone (RFC 4007 §11).
  fileprivate var canListen: Bool {
    if isIPv4 { return bits >> 28 & 0xF != 0xE && self != IPAddress(v4: .max) }
    return bits >> 120 != 0xFF && bits >> 118 != 0xFE80 >> 6
  }

  /// Whether sockets of both addresses get connections to one address. A socket of IPv6 gets none of IPv4 (IPV6_V6ONLY).
  func overlaps(_ other: IPAddress) -> Bool {
    let isEvery = Self.unspecified.contains(self) || Self.unspecified.contains(other)
    return self == other || isIPv4 == other.isIPv4 && isEvery
  }
}

/// The place of a socket: an address, and a port that is not 0.
struct SocketPlace {
  let address: IPAddress
  let port: UInt16

  /// Returns where a listener with these settings listens on TCP; nowhere that is known for port 0.
  static func all(of host: ListenHost, port: UInt16) -> [SocketPlace] {
    port == 0 ? [] : host.addresses.map { SocketPlace(address: $0, port: port) }
  }

  /// Returns where these sockets listen on TCP. One of `::` may get connections of IPv4 too, as its owner has set it.
  static func all(of sockets: [PassedSocket]) -> [SocketPlace] {
    sockets.flatMap { socket -> [SocketPlace] in
      guard let address = socket.address.ipAddress, let port = socket.address.port else { return [] }
      let addresses = address == IPAddress(bits: 0) ? IPAddress.unspecified : [address]
      return addresses.map { SocketPlace(address: $0, port: port) }
    }
  }

  func overlaps(_ other: SocketPlace) -> Bool { port == other.port && address.overlaps(other.address) }
}

extension SettingType where Value == ListenHost {
  static let listenHost = string("write an IP address without brackets, \"localhost\", or \"*\" for every address") {
    (text, remedy) throws(InvalidValue) in
    guard let host = ListenHost(text) else {
      let problem = IPAddress(text) == nil ? "is not an IP address" : "is an address on which no server can listen"
      throw InvalidValue("\(quoted(text)) \(problem)", remedy: remedy)
    }
    return host
  }
}
