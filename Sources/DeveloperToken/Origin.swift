/// A web origin, `http` or `https`, in the one spelling that browsers send (RFC 6454 §6.2).
///
/// Scheme and host are in lower case, a default port is left out, and there is neither path nor slash at the end. Apple
/// compares the `origin` claim with the browser's `Origin` byte by byte and expands no wildcards.
public struct Origin: Sendable, Hashable, Comparable, CustomStringConvertible {
  /// The origin as a browser sends it: ASCII without quotes, backslashes or white space.
  public let description: String

  /// Longest text that is looked at: a scheme, a host of 253 characters, a port.
  public static let limit = 300

  /// Normalises scheme, host and default port, and forgives a single slash at the end.
  ///
  /// - Throws: `OriginError`, a sentence, for everything else that is not an origin: a path, user info, query or
  ///   fragment, a wildcard, `null`, another scheme, or a host that no browser would send in this form.
  public init(_ text: String) throws(OriginError) {
    description = try OriginParser(text).serialization()
  }

  /// Orders by the serialization's bytes.
  public static func < (left: Origin, right: Origin) -> Bool { left.description < right.description }

  /// The host: a name, an IPv4 address, or an IPv6 address in brackets.
  public var host: Substring {
    let afterScheme = description.utf8.firstIndex(of: UInt8(ascii: "/")).map { description.utf8.index($0, offsetBy: 2) }
    let rest = description[(afterScheme ?? description.startIndex)...]
    let nameEnd = rest.firstIndex(of: "]").map { rest.index(after: $0) } ?? rest.firstIndex(of: ":")
    return rest[..<(nameEnd ?? rest.endIndex)]
  }

  /// The host as a resolver takes it: an IPv6 address without its brackets.
  public var hostToResolve: String { String(host.drop { $0 == "[" }.prefix { $0 != "]" }) }

  /// Whether the scheme is `https`.
  public var isSecure: Bool { description.hasPrefix("https:") }

  /// The port, if it is not the scheme's own.
  public var port: UInt16? {
    let rest = description[host.endIndex...]
    return rest.isEmpty ? nil : UInt16(rest.dropFirst())
  }

  /// Apple Music's.
  public static let appleMusic = Origin(serialization: "https://api.music.apple.com")

  /// One whose spelling is known to be right.
  private init(serialization: String) {
    description = serialization
  }

  /// Whether the host is this machine by name or address (RFC 6761 §6.3, RFC 1122 §3.2.1.3, RFC 4291 §2.5.3).
  public var isLoopback: Bool {
    let host = host
    return host == "localhost" || host.hasSuffix(".localhost") || host == "[::1]"
      || (host.hasPrefix("127.") && host.utf8.allSatisfy { $0 == UInt8(ascii: ".") || (0x30...0x39).contains($0) })
  }
}
