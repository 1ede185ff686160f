import Bytes
import EventLoop

/// A proxy that opens tunnels (CONNECT, RFC 9110 §9.3.6), for networks without direct access to the Internet.
package struct UpstreamProxy: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible {
  /// The host name, or the IP address without brackets.
  package let host: String
  package let port: UInt16
  /// The value of Proxy-Authorization, a secret.
  let authorization: String?

  /// The reason why a URL is invalid for a proxy. It does not contain the URL, which may hold a password.
  package struct InvalidURL: Error, Sendable, Equatable, CustomStringConvertible {
    package let description: String
  }

  /// Parses a URL as in `HTTPS_PROXY`: `[http://][user:password@]host[:port][/]`, by default with port 80.
  package init(_ url: String) throws(InvalidURL) {
    var rest = url[...]
    if let scheme = rest.firstRange(of: "://") {
      guard rest[..<scheme.lowerBound].lowercased() == "http" else {
        throw InvalidURL(description: "The proxy's URL must begin with 'http://'.")
      }
      rest = rest[scheme.upperBound...]
    }
    if rest.last == "/" { rest = rest.dropLast() }
    authorization = try Self.authorization(from: &rest)
    (host, port) = try Self.hostAndPort(rest)
  }

  /// `http://host:port`. Credentials appear as `***`.
  package var description: String {
    "http://\(authorization == nil ? "" : "***@")\(host.contains(":") ? "[\(host)]" : host):\(port)"
  }

  package var debugDescription: String { description }

  private static func authorization(from rest: inout Substring) throws(InvalidURL) -> String? {
    guard let at = rest.lastIndex(of: "@") else { return nil }
    let userInfo = String(rest[..<at])
    rest = rest[rest.index(after: at)...]
    guard let credentials = userInfo.withUTF8Bytes({ PercentEncoding.decode($0) }) else {
      throw InvalidURL(description: "The credentials in the proxy's URL are not percent-encoded properly.")
    }
    // RFC 7617 §2: a colon separates user and password. The colon is required even without a password.
    let pair = userInfo.contains(":") ? credentials : credentials + [UInt8(ascii: ":")]
    return "Basic \(Base64.encode(pair.span))"
  }

  private static func hostAndPort(_ text: Substring) throws(InvalidURL) -> (String, UInt16) {
    var host = text
    var port: UInt16 = 80
    if let colon = text.lastIndex(of: ":"), !text[colon...].contains("]") {
      guard let written = UInt16(text[text.index(after: colon)...]), written > 0 else {
        throw InvalidURL(description: "The port in the proxy's URL is not a number from 1 to 65535.")
      }
      (host, port) = (text[..<colon], written)
    }
    if host.first == "[", host.last == "]" {
      host = host.dropFirst().dropLast()
    } else if host.contains(":") {
      throw InvalidURL(description: "The IPv6 address in the proxy's URL has no brackets; write http://[ADDRESS]:PORT.")
    }
    let isPlain = host.utf8.allSatisfy { (0x21...0x7e).contains($0) && !"/?#@[]\\".utf8.contains($0) }
    guard !host.isEmpty, isPlain else { throw InvalidURL(description: "The proxy's URL has no host.") }
    return (String(host), port)
  }
}

/// Support for `NO_PROXY`, which no standard defines: all of the syntax that curl, Go and Python understand.
extension UpstreamProxy {
  /// Returns whether `NO_PROXY` exempts `host` from the proxy. The value is a list of
  /// - names, each including its subdomains, with or without `.` or `*.` in front;
  /// - addresses, IPv6 with or without brackets, and address ranges in CIDR notation;
  /// - either of these with `:port`, which must then be equal (an IPv6 address needs its brackets);
  /// - `*` for all hosts.
  ///
  /// Names are not resolved, so an address or a range exempts only a host that is written as an address, without brackets.
  package static func isExempt(_ host: String, port: UInt16, noProxy: String) -> Bool {
    let host = host.lowercased()
    let address = IPAddress(host)
    // Spaces are separators too, as in curl.
    return noProxy.lowercased().split(whereSeparator: { $0 == "," || $0 == " " }).contains { entry in
      if entry == "*" { return true }
      let (name, wanted) = nameAndPort(entry)
      guard wanted.map({ $0 == port }) ?? true else { return false }
      if let address { return AddressRange(name)?.contains(address) ?? false }
      let domain = name.drop { $0 == "*" }.drop { $0 == "." }
      return !domain.isEmpty && (host == domain || host.hasSuffix(".\(domain)"))
    }
  }

  /// Returns the parts of an entry. An invalid port after the colon makes the entry match nothing.
  private static func nameAndPort(_ entry: Substring) -> (name: String, port: UInt16?) {
    if entry.first == "[", let end = entry.firstIndex(of: "]") {
      let rest = entry[entry.index(after: end)...]
      let address = String(entry[entry.index(after: entry.startIndex)..<end])
      // A prefix length may follow the brackets: "[2001:db8::]/32".
      guard rest.first == ":" else { return (address + rest, nil) }
      return (address, UInt16(rest.dropFirst()) ?? 0)
    }
    guard let colon = entry.firstIndex(of: ":"), entry.lastIndex(of: ":") == colon else { return (String(entry), nil) }
    return (String(entry[..<colon]), UInt16(entry[entry.index(after: colon)...]) ?? 0)
  }
}
