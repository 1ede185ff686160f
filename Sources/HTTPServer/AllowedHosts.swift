import Bytes
import EventLoop
import HTTPMessages

/// The host names that a listener serves, as protection against DNS rebinding.
///
/// A page of `evil.example` can make that name resolve to 127.0.0.1 and then send requests to this machine as to its
/// own origin. Everything in these requests looks legitimate except the host that they name. A browser sends an IP
/// address as host only for a page of that address, and resolves `localhost` and its subdomains to this machine itself
/// (RFC 6761 §6.3). So the server always accepts these names, and accepts other names only if the operator has listed
/// them.
public struct AllowedHosts: Sendable {
  /// The names in lower case, without the dot of the root.
  private let names: Set<[UInt8]>
  /// The setting that lists further names, for the error message.
  private let setting: String

  /// Creates a set of host names.
  /// - Parameters:
  ///   - names: DNS names, in addition to IP addresses and `localhost`.
  ///   - setting: The path of the setting that contains them.
  public init(names: [String] = [], setting: String) {
    self.names = Set(names.map { Self.lowercased(Self.withoutRoot(Array($0.utf8)[...])) })
    self.setting = setting
  }

  /// Returns the error for a request with a host that is not allowed, or nil if the host is allowed.
  ///
  /// The host is that of the request target if it has one, else that of `Host` (RFC 9112 §3.2.2). `X-Forwarded-Host` is
  /// ignored, because any page can send it.
  func refusal(of request: Request) -> ErrorResponse? {
    guard !request.comesByTrustedProxy, !allows(request.authority) else { return nil }
    let advice =
      request.authority.isEmpty
      ? "The request names no host. Send Host with an IP address, localhost or a name in"
      : "This server does not serve the host that the request names. Use an IP address or localhost, or add the name to"
    return ErrorResponse(.misdirectedRequest, "\(advice) \(setting).", end: .message)
  }

  /// Returns whether the server accepts requests for this authority, with or without a port.
  func allows(_ authority: ArraySlice<UInt8>) -> Bool {
    if authority.first == UInt8(ascii: "[") {
      let address = authority.dropFirst().prefix { $0 != UInt8(ascii: "]") }
      return address.endIndex < authority.endIndex && IPAddress(address.span) != nil
    }
    let host = authority.prefix { $0 != UInt8(ascii: ":") }
    guard (1...Self.longestName).contains(host.count) else { return false }
    let name = Self.withoutRoot(host)
    if Self.isLocalhost(name) || IPAddress(name.span) != nil { return true }
    return !names.isEmpty && names.contains(Self.lowercased(name))
  }

  /// Returns whether the name is `localhost` or below it, in any case.
  private static func isLocalhost(_ name: ArraySlice<UInt8>) -> Bool {
    let (bytes, start) = (name.span, name.count - localhostLength)
    guard start >= 0, bytes.equalsIgnoringCase(start..<name.count, "localhost") else { return false }
    return start == 0 || start > 1 && bytes[start - 1] == UInt8(ascii: ".")
  }

  /// The maximum length of a DNS name with the dot of the root (RFC 1035 §3.1).
  private static let longestName = 254
  private static let localhostLength = 9

  private static func withoutRoot(_ name: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    name.last == UInt8(ascii: ".") ? name.dropLast() : name
  }

  private static func lowercased(_ name: ArraySlice<UInt8>) -> [UInt8] {
    name.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }
  }
}
