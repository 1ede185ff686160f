import EventLoop
import HTTPMessages

/// The host names under which a listener answers: a guard against DNS rebinding.
///
/// A page of `evil.example` can let that name resolve to 127.0.0.1 and then speak to this machine as to its own origin.
/// Everything in its requests looks honest except the host that they name. A browser puts an IP address there only for a
/// page of that address, and resolves `localhost` and its subdomains to this machine itself (RFC 6761 §6.3). So these
/// names are always answered, and others only where the operator has listed them.
public struct AllowedHosts: Sendable {
  /// In lower case, without the dot of the root.
  private let names: Set<[UInt8]>
  /// The setting that lists further names, for who is refused.
  private let setting: String

  /// - Parameters:
  ///   - names: DNS names, beside IP addresses and `localhost`.
  ///   - setting: The path of the setting that holds them.
  public init(names: [String] = [], setting: String) {
    self.names = Set(names.map { Self.normalForm(Array($0.utf8)[...]) })
    self.setting = setting
  }

  /// Why a request is not answered here; nil if it may be.
  ///
  /// The host is that of the request target where it has one, else that of `Host` (RFC 9112 §3.2.2).
  /// `X-Forwarded-Host` counts for nothing, since any page can send it.
  func refusal(of request: Request) -> ErrorResponse? {
    guard !request.comesByTrustedProxy, !allows(request.authority) else { return nil }
    return ErrorResponse(
      .misdirectedRequest,
      "This server does not answer for the host that the request names. Use an IP address or localhost, or list the "
        + "name in \(setting).", closesConnection: true)
  }

  /// Whether requests for this authority, with its port or without, are answered.
  func allows(_ authority: ArraySlice<UInt8>) -> Bool {
    if authority.first == UInt8(ascii: "[") {
      let address = authority.dropFirst().prefix { $0 != UInt8(ascii: "]") }
      return address.endIndex < authority.endIndex && IPAddress(address.span) != nil
    }
    let host = authority.prefix { $0 != UInt8(ascii: ":") }
    guard (1...Self.longestName).contains(host.count) else { return false }
    let name = Self.normalForm(host)
    if name == Self.localhost || (name.count > Self.belowLocalhost.count && name.ends(with: Self.belowLocalhost)) {
      return true
    }
    return names.contains(name) || IPAddress(name.span) != nil
  }

  /// A DNS name with the dot of the root (RFC 1035 §3.1).
  private static let longestName = 254
  private static let localhost = Array("localhost".utf8)
  private static let belowLocalhost = Array(".localhost".utf8)

  private static func normalForm(_ name: ArraySlice<UInt8>) -> [UInt8] {
    let relative = name.last == UInt8(ascii: ".") ? name.dropLast() : name
    return relative.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }
  }
}

extension [UInt8] {
  fileprivate func ends(with suffix: [UInt8]) -> Bool { self.suffix(suffix.count).elementsEqual(suffix) }
}
