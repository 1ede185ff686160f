import Bytes
import EventLoop
import HTTPMessages

/// The host names that a listener serves, as protection against DNS rebinding.
///
/// A page of `evil.example` can make that name resolve to 127.0.0.1, or to a private address, and then send requests to
/// the server there as to its own origin. Only the host that these requests name is below a domain that the attacker
/// controls. So the server always accepts what cannot be such a name, and others only if the operator has listed them:
///
/// - IP addresses, which a browser sends only for a page of that address;
/// - names of one label, such as the service names of Docker and Kubernetes, because no attacker controls a top-level
///   domain;
/// - `localhost` and names below it (RFC 6761 §6.3), and names below `local` (RFC 6762 §3), `internal` (reserved by ICANN
///   for private use) and `svc` (Kubernetes), which are no public domains. `cluster.local` is below `local`;
/// - requests without a host, over HTTP/1.0, which probes of load balancers send and no browser does.
package struct AllowedHosts: Sendable {
  /// The names in lower case, without the dot of the root.
  private let names: Set<[UInt8]>
  /// The setting that lists further names, for the error message.
  private let setting: String

  /// Creates a set of DNS names, in addition to those that are always allowed. `setting` is the path of their setting.
  package init(names: [String] = [], setting: String) {
    self.names = Set(names.map { Self.withoutRoot(Array($0.utf8)[...]).map(\.lowercased) })
    self.setting = setting
  }

  /// Returns the error for a request with a host that is not allowed. The host is that of the request target, else of `Host`
  /// (RFC 9112 §3.2.2). Any page can send `X-Forwarded-Host`.
  func refusal(of request: Request) -> ErrorResponse? {
    guard !request.comesByTrustedProxy, !request.authority.isEmpty, !allows(request.authority) else { return nil }
    return ErrorResponse(
      .misdirectedRequest,
      "This server does not serve the host that the request names. Use \(Self.alwaysAllowed), or add the name to "
        + "\(setting).", end: .message)
  }

  /// The hosts that need no setting, for sentences: `Use …, or …`.
  package static let alwaysAllowed =
    "an IP address, a name without a dot, or a name that ends in .localhost, .local, .internal or .svc"

  /// Returns whether the server accepts requests for this authority.
  func allows(_ authority: ArraySlice<UInt8>) -> Bool {
    if authority.first == UInt8(ascii: "[") {
      let address = authority.dropFirst().prefix { $0 != UInt8(ascii: "]") }
      return address.endIndex < authority.endIndex && IPAddress(address.span) != nil
    }
    let host = authority.prefix { $0 != UInt8(ascii: ":") }
    guard (1...Self.longestName).contains(host.count) else { return false }
    let name = Self.withoutRoot(host)
    // Health checks send it, so it comes before the loop over all bytes.
    if name.span.equalsIgnoringCase(0..<name.count, "localhost") || Self.isPrivate(name) { return true }
    // An IPv4 address ends in a digit.
    if name.last?.decimalDigit != nil, IPAddress(name.span) != nil { return true }
    return !names.isEmpty && names.contains(name.map(\.lowercased))
  }

  /// Returns whether no attacker can own the name: a single label, or a name below a private domain.
  private static func isPrivate(_ name: ArraySlice<UInt8>) -> Bool {
    let bytes = name.span
    var label = 0
    for index in bytes.indices {
      if bytes[index] == UInt8(ascii: ".") {
        guard index > label else { return false }
        label = index + 1
      } else if !isInName(bytes[index]) {
        return false
      }
    }
    let last = label..<bytes.count
    guard !last.isEmpty else { return false }
    if label == 0 { return bytes[0].decimalDigit == nil || !isNumber(bytes) }
    return bytes.equalsIgnoringCase(last, "localhost") || bytes.equalsIgnoringCase(last, "local")
      || bytes.equalsIgnoringCase(last, "internal") || bytes.equalsIgnoringCase(last, "svc")
  }

  /// Returns whether the byte may be in a label: a letter, a digit, a hyphen, or the underscore of container names.
  private static func isInName(_ byte: UInt8) -> Bool {
    (byte | 0x20) &- UInt8(ascii: "a") < 26 || byte &- UInt8(ascii: "0") < 10 || byte == UInt8(ascii: "-")
      || byte == UInt8(ascii: "_")
  }

  /// Returns whether a browser takes the label for an IPv4 address (the URL standard, "ends in a number"). It would have
  /// sent the address in its usual form, so the label comes from no page.
  private static func isNumber(_ label: Span<UInt8>) -> Bool {
    let isHexadecimal = label.count >= 2 && label.equalsIgnoringCase(0..<2, "0x")
    return label.indices.allSatisfy { index in
      isHexadecimal ? index == 1 || label[index].hexadecimalDigit != nil : label[index].decimalDigit != nil
    }
  }

  /// The maximum length of a DNS name with the dot of the root (RFC 1035 §3.1).
  private static let longestName = 254

  private static func withoutRoot(_ name: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    name.last == UInt8(ascii: ".") ? name.dropLast() : name
  }
}
