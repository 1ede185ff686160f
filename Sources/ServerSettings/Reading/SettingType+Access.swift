import Access
import Bytes
import EventLoop
import HTTPClient

extension SettingType where Value == OriginPattern {
  /// A web origin, possibly with a star as its first label.
  static let originPattern = originText(
    "write an origin such as \"https://app.example.com\" or \"https://*.preview.example.com\""
  ) { try OriginPattern($0) }
}

extension SettingType where Value == APIKeyDigest {
  /// The SHA-256 of an API key. An invalid value may be the key itself, so errors never quote it.
  static let apiKeyDigest: SettingType = {
    let remedy = "write the 64 hexadecimal digits that new-api-key prints"
    return string(remedy, write: { "\"\($0.hexadecimal)\"" }) { (text) throws(InvalidValue) in
      guard APIKeyForm(of: text) == .other else {
        throw InvalidValue(
          problem: "is an API key in clear instead of its SHA-256",
          remedy: "others may know this key now: make a new one with new-api-key, and \(remedy)")
      }
      guard let digest = APIKeyDigest(hexadecimal: text) else {
        let kind = text.utf8.count == 64 ? "" : " (\(text.utf8.count) characters)"
        throw InvalidValue(problem: "is not a SHA-256 in hexadecimal\(kind)", remedy: remedy)
      }
      guard !digest.isOfEmptyKey else {
        throw InvalidValue(problem: "is the SHA-256 of an empty key", remedy: remedy)
      }
      return digest
    }
  }()
}

extension SettingType where Value == SubjectName {
  static let subjectName = text(
    "a subject alternative name",
    remedy: "write a URI such as \"spiffe://example.com/partner\", a DNS name without a star, or an e-mail address",
    make: { SubjectName($0) })
}

extension SettingType where Value == String {
  /// Creates a type for a text of at most 1024 printable characters.
  static func label(_ remedy: String) -> SettingType {
    string(remedy) { (text) throws(InvalidValue) in
      guard (1...1024).contains(text.utf8.count),
        text.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0 != "\u{7F}" })
      else { throw InvalidValue(problem: "is empty, or too long", remedy: remedy) }
      return text
    }
  }

  /// The name of a client, which appears in logs and as a label of metrics.
  static let clientID: SettingType = {
    let remedy = "write 1 to 64 letters, digits, dots, dashes and underscores, such as \"android\""
    return string(remedy) { (text) throws(InvalidValue) in
      guard APIKeyForm(of: text) == .other, !holdsAPIKey(text) else {
        throw InvalidValue(
          problem: "is or contains an API key",
          remedy: "write a name, such as \"android\"; others may know this key now: make a new one with new-api-key")
      }
      guard (1...64).contains(text.utf8.count), text.utf8.allSatisfy(\.isOfName), text != "-" else {
        throw InvalidValue(problem: "\(quoted(text)) is not a valid client name", remedy: remedy)
      }
      guard text != Client.anonymousID, text != "other" else {
        throw InvalidValue(
          problem: "\(quoted(text)) has another meaning in logs and metrics", remedy: "write another name")
      }
      return text
    }
  }()

  /// An ISO 3166-1 alpha-2 country code, which Apple uses as the name of a storefront.
  static let storefront = text("a storefront", remedy: "write a storefront of two letters such as \"us\"") { text in
    text.utf8.count == 2 && text.allSatisfy { $0.isASCII && $0.isLetter } ? text.lowercased() : nil
  }

  /// The URL of a proxy for tunnels, with credentials if necessary.
  static let upstreamProxy: SettingType = {
    let remedy = "write a URL such as \"http://proxy.example.com:3128\""
    return string(remedy) { (text) throws(InvalidValue) in
      guard (try? UpstreamProxy(text)) != nil else {
        throw InvalidValue(problem: "is not the URL of a proxy", remedy: remedy)
      }
      return text
    }
  }()

  /// A DNS name as in `Host`, without a port. RFC 1035 §2.3.4 limits its length and the length of its labels.
  fileprivate static let hostName = text(
    "the name of a host", remedy: "write a name such as \"tokens.example.com\", without scheme, port and star"
  ) { text in
    let labels = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    let isName = labels.allSatisfy { (1...63).contains($0.count) && $0.allSatisfy(\.isOfName) }
    return isName && text.utf8.count <= 253 ? text.lowercased() : nil
  }
}

extension SettingType where Value == [String] {
  /// Host names, at least one. An empty list would be ambiguous: it could mean no name or any name.
  static let hostNames = list(
    of: .hostName,
    remedy:
      "write a list such as [\"tokens.example.com\"]; the server always serves IP addresses and names without a dot",
    ifEmpty: "name some, or leave it out")
}

extension SettingType where Value == ListenHost {
  static let listenHost = text(
    "an IP address", remedy: "write an IP address without brackets, \"localhost\", or \"*\" for every address",
    make: { ListenHost($0) })
}

extension SettingType where Value == AddressRange {
  static let addressRange = text(
    "a range of addresses",
    remedy: "write an address or a CIDR range such as \"10.0.0.0/8\", without bits beyond its prefix",
    make: { AddressRange($0) })
}
