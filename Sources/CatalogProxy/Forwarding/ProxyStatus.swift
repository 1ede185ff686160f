/// The value of `Proxy-Status` (RFC 9209): what went wrong on the way to the upstream, and who says so.
public struct ProxyStatus: Sendable, Equatable {
  /// The proxy's name: a token (RFC 9110 §5.6.2).
  public var proxy: String
  /// The error type (RFC 9209 §2.3); nil if the upstream's answer itself is the matter.
  public var error: String?
  /// The status that the upstream answered with.
  public var receivedStatus: Int?
  /// The host that was asked.
  public var nextHop: String?

  /// A status of this server.
  public init(
    error: String? = nil, receivedStatus: Int? = nil, nextHop: String? = nil,
    proxy: String = "musickit-token-server"
  ) {
    self.proxy = proxy
    self.error = error
    self.receivedStatus = receivedStatus
    self.nextHop = nextHop
  }

  /// The field value: a list of one item with parameters (RFC 9651 §3.3).
  public var fieldValue: String {
    var value = proxy
    if let error { value += "; error=\(error)" }
    if let receivedStatus { value += "; received-status=\(receivedStatus)" }
    if let nextHop { value += "; next-hop=\(Self.string(nextHop))" }
    return value
  }

  /// A structured string (RFC 9651 §3.3.3): printable ASCII, quote and backslash escaped.
  private static func string(_ text: String) -> String {
    var value = "\""
    for scalar in text.unicodeScalars where (" "..."~").contains(scalar) {
      if scalar == "\"" || scalar == "\\" { value += "\\" }
      value.unicodeScalars.append(scalar)
    }
    return value + "\""
  }
}
