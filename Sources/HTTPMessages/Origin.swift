import Bytes

/// A web origin, `http` or `https`, as browsers send it (RFC 6454 §6.2): scheme and host in lower case, no default
/// port, path or slash at the end. Apple compares the `origin` claim with `Origin` byte by byte.
public struct Origin: Sendable, Hashable, Comparable, CustomStringConvertible {
  /// The origin as a browser sends it: ASCII without quotes, backslashes or white space.
  public let description: String

  /// The maximum length of a text in bytes: a scheme, a host of 253 characters, and a port.
  public static let limit = 300

  /// Normalises scheme, host and default port, and accepts a single slash at the end.
  /// - Throws: `OriginError`, with a sentence, for any other text that is not an origin: a path, user info, query or
  ///   fragment, a wildcard, `null`, another scheme, or a host that browsers do not send in this form.
  public init(_ text: String) throws(OriginError) { description = try OriginParser(text).serialization() }

  /// Orders origins by the bytes of their serialization.
  public static func < (left: Origin, right: Origin) -> Bool { left.description < right.description }

  /// The host: a name, an IPv4 address, or an IPv6 address in brackets.
  public var host: Substring {
    let rest = description.drop { $0 != "/" }.dropFirst(2)
    let nameEnd = rest.firstIndex(of: "]").map { rest.index(after: $0) } ?? rest.firstIndex(of: ":")
    return rest[..<(nameEnd ?? rest.endIndex)]
  }

  /// The host in the form for a resolver: an IPv6 address without its brackets.
  public var hostToResolve: String { String(host.drop { $0 == "[" }.prefix { $0 != "]" }) }
  /// Whether the scheme is `https`.
  public var isSecure: Bool { description.hasPrefix("https:") }

  /// The port, or nil if it is the scheme's default port.
  public var port: UInt16? {
    let rest = description[host.endIndex...]
    return rest.isEmpty ? nil : UInt16(rest.dropFirst())
  }

  /// The origin of the Apple Music API.
  public static let appleMusic = Origin(serialization: "https://api.music.apple.com")

  private init(serialization: String) { description = serialization }

  /// Whether the host names this machine by name or address (RFC 6761 §6.3, RFC 1122 §3.2.1.3, RFC 4291 §2.5.3).
  public var isLoopback: Bool {
    let host = host
    return host == "localhost" || host.hasSuffix(".localhost") || host == "[::1]"
      || (host.hasPrefix("127.") && host.utf8.allSatisfy { $0 == UInt8(ascii: ".") || (0x30...0x39).contains($0) })
  }
}

/// The error for a text that is not a valid origin for a token.
public struct OriginError: Error, Sendable, Hashable, CustomStringConvertible {
  let text: String
  /// The sentence without its subject.
  let problem: String

  /// One sentence that quotes the text, if it is short and printable, and says what would be correct.
  public var description: String { "The origin \(Printable.quote(text, limit: 120)) \(problem)" }
}

/// A parser of origins (RFC 6454 §6.2) with hosts as in the URL standard, on bytes, because many requests name one.
private struct OriginParser {
  private let text: String
  private let bytes: [UInt8]
  private static let separator = Array("://".utf8)

  init(_ text: String) {
    self.text = text
    bytes = Array(text.utf8.prefix(Origin.limit + 1)).map(\.lowercased)
  }

  func serialization() throws(OriginError) -> String {
    try checkCharacters()
    let (scheme, authority) = try split()
    let (host, port) = try splitPort(authority)
    var output = scheme.name + Self.separator
    output.reserveCapacity(bytes.count)
    try appendHost(host, to: &output)
    if let number = try portNumber(port), number != scheme.defaultPort { output += ":\(number)".utf8 }
    return String(decoding: output, as: UTF8.self)
  }

  private func checkCharacters() throws(OriginError) {
    guard !bytes.isEmpty else { throw problem("is empty.") }
    guard bytes.count <= Origin.limit else { throw problem("is longer than \(Origin.limit) bytes.") }
    guard !text.utf8.elementsEqual("null".utf8) else {
      throw problem(
        """
        is the opaque origin: browsers send it for file:// pages and sandboxed frames, and it names no page. Serve the \
        page over http or https, and write its origin.
        """)
    }
    guard bytes.allSatisfy({ $0 < 0x80 }) else {
      throw problem("has characters beyond ASCII; an international name is written as its A-label (xn--…).")
    }
    guard bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { throw problem("has white space or control characters.") }
  }

  private typealias Scheme = (name: [UInt8], defaultPort: Int)
  private static let schemes: [Scheme] = [(Array("https".utf8), 443), (Array("http".utf8), 80)]

  /// Returns the scheme, and the bytes after `://`.
  private func split() throws(OriginError) -> (Scheme, ArraySlice<UInt8>) {
    guard bytes != [UInt8(ascii: "*")] else { throw problem("is a wildcard; \(Self.wildcardAdvice)") }
    guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")), bytes[colon...].starts(with: Self.separator) else {
      throw problem("has no scheme; write https:// or http:// before the host, as in https://app.example.com.")
    }
    guard let scheme = Self.schemes.first(where: { bytes[..<colon].elementsEqual($0.name) }) else {
      throw problem(
        "has a scheme other than http and https. Write one such as https://app.example.com; an app that is no web page "
          + "uses an API key and names no origin.")
    }
    let rest = bytes[(colon + Self.separator.count)...]
    // A backslash counts as a slash (URL standard, authority state).
    let end = rest.firstIndex { "/?#\\".utf8.contains($0) } ?? rest.endIndex
    guard end == rest.endIndex || (end == rest.endIndex - 1 && rest[end] == UInt8(ascii: "/")) else {
      throw problem("has a path, query or fragment; an origin is scheme, host and port only.")
    }
    let authority = rest[..<end]
    guard !authority.contains(UInt8(ascii: "@")) else {
      throw problem("has user information, which is no part of an origin.")
    }
    guard !authority.contains(UInt8(ascii: "*")) else { throw problem("has a wildcard; \(Self.wildcardAdvice)") }
    return (scheme, authority)
  }

  private static let wildcardAdvice =
    "Apple compares origins byte by byte, so name each one in full, as in https://app.example.com."

  /// Returns host and port.
  private func splitPort(
    _ authority: ArraySlice<UInt8>
  ) throws(OriginError) -> (ArraySlice<UInt8>, ArraySlice<UInt8>?) {
    guard authority.first == UInt8(ascii: "[") else {
      guard let colon = authority.firstIndex(of: UInt8(ascii: ":")) else { return (authority, nil) }
      return (authority[..<colon], authority[(colon + 1)...])
    }
    guard let bracket = authority.firstIndex(of: UInt8(ascii: "]")) else {
      throw problem("has an IPv6 address without its “]”.")
    }
    let after = authority[(bracket + 1)...]
    guard let colon = after.first else { return (authority, nil) }
    guard colon == UInt8(ascii: ":") else { throw problem("has something between the IPv6 address and the port.") }
    return (authority[...bracket], after.dropFirst())
  }

  private func portNumber(_ digits: ArraySlice<UInt8>?) throws(OriginError) -> Int? {
    guard let digits else { return nil }
    guard (1...5).contains(digits.count), digits.allSatisfy(Self.isDigit),
      case let number = digits.reduce(0, { $0 * 10 + Int($1 - UInt8(ascii: "0")) }), (1...65_535).contains(number)
    else { throw problem("has a port that is not a number from 1 to 65535.") }
    return number
  }

  private func appendHost(_ host: ArraySlice<UInt8>, to output: inout [UInt8]) throws(OriginError) {
    guard !host.isEmpty else { throw problem("has no host.") }
    guard host.first == UInt8(ascii: "[") else {
      try check(host)
      return output += host
    }
    let inside = host.dropFirst().dropLast()
    guard let address = inside.span.ipv6Address else {
      throw problem("has brackets around something that is not an IPv6 address.")
    }
    output += "[\(Self.text(ofIPv6: address))]".utf8
  }

  /// Returns the address as browsers send it: as in RFC 5952, without an IPv4 address (URL standard, host serializing).
  private static func text(ofIPv6 address: UInt128) -> String {
    let (front, last) = (address >> 32, UInt32(truncatingIfNeeded: address))
    guard front == 0xffff || (front == 0 && last > 0xffff) else { return String(ipv6: address) }
    return "::\(front == 0 ? "" : "ffff:")\(String(last >> 16, radix: 16)):\(String(last & 0xffff, radix: 16))"
  }

  private func check(_ name: ArraySlice<UInt8>) throws(OriginError) {
    var label = name
    var isName = name.count <= 253
    while isName, let dot = label.firstIndex(of: UInt8(ascii: ".")) {
      isName = Self.isLabel(label[..<dot])
      label = label[(dot + 1)...]
    }
    guard isName, Self.isLabel(label) else {
      throw problem("has a host that is not a name of letters, digits and hyphens between dots.")
    }
    // Browsers rewrite a name whose last label is a number as an IPv4 address (URL standard, ends-in-a-number checker).
    guard Self.isNumber(label) else { return }
    guard name.span.ipv4Address != nil else {
      throw problem("has a host that ends in a number and is not an IPv4 address.")
    }
  }

  /// Returns whether this is a label of a host name (RFC 1123 §2.1). Browsers also allow the underscore.
  private static func isLabel(_ label: ArraySlice<UInt8>) -> Bool {
    guard let first = label.first, let last = label.last, label.count <= 63 else { return false }
    return isEdge(first) && isEdge(last) && label.allSatisfy { isEdge($0) || $0 == UInt8(ascii: "-") }
  }

  private static func isEdge(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || isDigit(byte) || byte == UInt8(ascii: "_")
  }

  private static func isNumber(_ label: ArraySlice<UInt8>) -> Bool {
    if label.allSatisfy(isDigit) { return true }
    guard label.starts(with: [UInt8(ascii: "0"), UInt8(ascii: "x")]) else { return false }
    return label.dropFirst(2).allSatisfy { isDigit($0) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0) }
  }

  private static func isDigit(_ byte: UInt8) -> Bool { byte.decimalDigit != nil }
  private func problem(_ sentence: String) -> OriginError { OriginError(text: text, problem: sentence) }
}
