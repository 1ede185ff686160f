import Glibc

/// Reads an origin and makes its serialization (RFC 6454 §6.2), as the URL standard has hosts.
struct OriginParser {
  private let text: String

  init(_ text: String) { self.text = text }

  func serialization() throws(OriginError) -> String {
    guard !text.isEmpty else { throw problem("is empty.") }
    guard text.utf8.count <= Origin.limit else { throw problem("is longer than \(Origin.limit) bytes.") }
    guard text != "null" else { throw problem("is the opaque origin, which stands for no site.") }
    guard text.utf8.allSatisfy({ $0 < 0x80 }) else {
      throw problem("has characters beyond ASCII; an international name is written as its A-label (xn--…).")
    }
    guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
      throw problem("has white space or control characters.")
    }
    let (scheme, authority) = try split()
    let (host, port) = try splitPort(authority)
    let serializedHost = try hostSerialization(host)
    guard let number = try portNumber(port), number != scheme.defaultPort else {
      return scheme.name + "://" + serializedHost
    }
    return scheme.name + "://" + serializedHost + ":" + String(number)
  }

  private typealias Scheme = (name: String, defaultPort: Int)

  /// The scheme, and what is between `://` and the end.
  private func split() throws(OriginError) -> (Scheme, Substring) {
    guard let colon = text.firstIndex(of: ":"), text[colon...].hasPrefix("://") else {
      throw problem("has no scheme: an origin is written like https://app.example.com.")
    }
    let scheme: Scheme
    switch text[..<colon].lowercased() {
    case "https": scheme = ("https", 443)
    case "http": scheme = ("http", 80)
    default: throw problem("has another scheme than http or https.")
    }
    let rest = text[text.index(colon, offsetBy: 3)...]
    let end = rest.firstIndex { "/?#\\".contains($0) } ?? rest.endIndex
    guard rest[end...].isEmpty || rest[end...] == "/" else {
      throw problem("has a path, query or fragment; an origin is scheme, host and port only.")
    }
    let authority = rest[..<end]
    guard !authority.contains("@") else { throw problem("has user information, which is no part of an origin.") }
    guard !authority.contains("*") else {
      throw problem("has a wildcard; Apple compares origins byte by byte, so each one must be concrete.")
    }
    return (scheme, authority)
  }

  private func splitPort(_ authority: Substring) throws(OriginError) -> (host: Substring, port: Substring?) {
    guard authority.first == "[" else {
      guard let colon = authority.firstIndex(of: ":") else { return (authority, nil) }
      return (authority[..<colon], authority[authority.index(after: colon)...])
    }
    guard let bracket = authority.firstIndex(of: "]") else { throw problem("has an IPv6 address without its “]”.") }
    let after = authority[authority.index(after: bracket)...]
    guard !after.isEmpty else { return (authority, nil) }
    guard after.first == ":" else { throw problem("has something between the IPv6 address and the port.") }
    return (authority[...bracket], after.dropFirst())
  }

  private func portNumber(_ text: Substring?) throws(OriginError) -> Int? {
    guard let text else { return nil }
    guard text.utf8.count <= 5, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(text),
      (1...65_535).contains(number)
    else { throw problem("has a port that is not a number from 1 to 65535.") }
    return number
  }

  private func hostSerialization(_ host: Substring) throws(OriginError) -> String {
    guard !host.isEmpty else { throw problem("has no host.") }
    if host.first == "[" {
      guard let address = IPv6.serialization(host.dropFirst().dropLast()) else {
        throw problem("has brackets around something that is not an IPv6 address.")
      }
      return "[\(address)]"
    }
    let name = host.lowercased()
    try check(name)
    return name
  }

  private func check(_ name: String) throws(OriginError) {
    let labels = name.split(separator: ".", omittingEmptySubsequences: false)
    guard name.utf8.count <= 253, labels.allSatisfy(isLabel) else {
      throw problem("has a host that is not a name of letters, digits and hyphens between dots.")
    }
    // Browsers take a name whose last label is a number as an IPv4 address and rewrite it (URL standard, ends-in-a-
    // number checker), so only the form that they would send is an origin.
    guard let last = labels.last, isNumber(last) else { return }
    guard IPv4.isValid(name) else { throw problem("has a host that ends in a number and is not an IPv4 address.") }
  }

  /// A label of a host name (RFC 1123 §2.1), with the underscore that browsers let through.
  private func isLabel(_ label: Substring) -> Bool {
    let isAlphanumeric = { (byte: UInt8) in
      (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (0x30...0x39).contains(byte)
    }
    guard let first = label.utf8.first, let last = label.utf8.last, label.utf8.count <= 63 else { return false }
    let isEdge = { (byte: UInt8) in isAlphanumeric(byte) || byte == UInt8(ascii: "_") }
    return isEdge(first) && isEdge(last) && label.utf8.allSatisfy { isEdge($0) || $0 == UInt8(ascii: "-") }
  }

  private func isNumber(_ label: Substring) -> Bool {
    if label.utf8.allSatisfy({ (0x30...0x39).contains($0) }) { return true }
    return label.hasPrefix("0x") && label.dropFirst(2).allSatisfy(\.isHexDigit)
  }

  private func problem(_ sentence: String) -> OriginError { OriginError(text: text, problem: sentence) }
}
