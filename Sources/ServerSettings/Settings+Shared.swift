package import Cryptography
import EventLoop
package import TLS

extension Settings {
  /// The store that all replicas of the server share. The settings below describe the properties.
  package struct Shared: Sendable, Equatable {
    /// The path is empty only in a section that is being read.
    package var address = StoreAddress.unix(path: "")
    package var user: String?
    package var passwordFile: String?
    package var caFile: String?
    package var database = 0
    package var keyPrefix = "musickit"
    package var timeout = Duration.milliseconds(20)
  }
}

/// The address of a store: `redis://` or `rediss://` with host and port, or the path of a Unix-domain socket.
package enum StoreAddress: Sendable, Equatable, CustomStringConvertible {
  case tcp(host: String, port: UInt16, isSecure: Bool)
  case unix(path: String)

  private static let usualPort: UInt16 = 6379

  /// Parses a URL. Returns nil if it is malformed, or has a user, a password, a path or a query.
  init?(_ text: String) {
    guard text.utf8.count <= 512, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { return nil }
    if let path = ["unix://", "unix:"].lazy.compactMap({ text.hasPrefix($0) ? text.dropFirst($0.count) : nil }).first {
      guard path.hasPrefix("/"), path.utf8.count <= 107 else { return nil }
      self = .unix(path: String(path))
      return
    }
    let schemes = [("redis://", false), ("rediss://", true), ("valkey://", false), ("valkeys://", true)]
    guard let (scheme, isSecure) = schemes.first(where: { text.lowercased().hasPrefix($0.0) }) else { return nil }
    var rest = text.dropFirst(scheme.count)
    if rest.hasSuffix("/") { rest = rest.dropLast() }
    guard !rest.isEmpty, !rest.contains(where: { "/?#@".contains($0) }) else { return nil }
    var host = rest
    var port = Self.usualPort
    let bracket = rest.lastIndex(of: "]")
    if let colon = rest.lastIndex(of: ":"), bracket.map({ $0 < colon }) ?? true {
      guard let number = UInt16(rest[rest.index(after: colon)...]), number > 0 else { return nil }
      (host, port) = (rest[..<colon], number)
    }
    if host.hasPrefix("["), host.hasSuffix("]") {
      host = host.dropFirst().dropLast()
    } else if host.contains(":") {
      return nil
    }
    guard !host.isEmpty, !host.contains(where: { "[]".contains($0) }) else { return nil }
    self = .tcp(host: String(host), port: port, isSecure: isSecure)
  }

  package var description: String {
    switch self {
    case .tcp(let host, let port, let isSecure):
      "\(isSecure ? "rediss" : "redis")://\(host.contains(":") ? "[\(host)]" : host):\(port)"
    case .unix(let path): "unix://\(path)"
    }
  }

  package var isSecure: Bool { if case .tcp(_, _, true) = self { true } else { false } }

  /// Whether only this machine can read the connection.
  fileprivate var isLocal: Bool {
    guard case .tcp(let host, _, _) = self else { return true }
    return host == "localhost" || IPAddress(host)?.isLoopback ?? false
  }
}

extension Settings.Shared: SettingsSection {
  static let place = SectionPlace(\.shared)

  static let url = Setting(
    "shared.url", .storeAddress, example: #""rediss://valkey.example.com:6379""#,
    fixed: .presence(of: \.shared).and(place.fixed(\.address)),
    "`redis://`, `rediss://` (TLS) or `unix:///path` of a server of Redis (6 or later) or Valkey. With it, all replicas "
      + "together keep the rate limits, Apple's quota and cached responses ([scaling](scaling.md)).")

  static let rows: [SectionRow<Self>] = [
    .own(url),
    row(
      "shared.user", .label("write the name of a user of the store"), \.user, example: #""musickit""#, isLive: true,
      "The user at the store. Default: the store's default user."),
    row(
      "shared.passwordFile", .path, \.passwordFile, example: #""/run/secrets/valkey-password""#, isLive: true,
      "A file with the password for the store."),
    row(
      "shared.caFile", .path, \.caFile, example: #""/etc/ssl/certs/ca-certificates.crt""#, isLive: true,
      "PEM, the CAs that the server trusts for the store. Default: the system's store."),
    row("shared.database", .integer(0...65_535), \.database, "The number of the store's database."),
    row(
      "shared.keyPrefix", .keyPrefix, \.keyPrefix,
      "The beginning of every key and channel at the store. Servers with the same prefix are one group, so servers of "
        + "other teams need another prefix."),
    row(
      "shared.timeout", .duration(milliseconds: 1...5000), \.timeout,
      "How long a request waits for a reply of the store. Then the replica decides without it. A longer time suits a "
        + "store that is far away, and delays requests while the store is slow."),
  ]

  init?(_ reader: inout SettingsReader) {
    self.init()
    let address = reader.read(Self.url)
    let isValid = read(&reader)
    if !reader.isSet(Self.url.path) {
      for path in ["shared.user", "shared.passwordFile", "shared.caFile"] where reader.isSet(path) {
        reader.reject(path, "is set without shared.url", remedy: "write shared.url, or remove it")
      }
    } else if user != nil, !reader.isSet("shared.passwordFile") {
      reader.reject(
        "shared.user", "is set without shared.passwordFile", remedy: "write the path of the password's file")
    }
    guard let address, isValid else { return nil }
    self.address = address
    if caFile != nil, !address.isSecure {
      reader.reject("shared.caFile", "is set, but shared.url is not encrypted", remedy: "write rediss://")
    }
  }

  /// No error, because the store sees no token and no key, and many clusters have a private network.
  var plaintextWarning: String? {
    guard !address.isSecure, !address.isLocal else { return nil }
    let secret = passwordFile == nil ? "" : ", and the password with them"
    return "shared.url is not rediss://, so commands travel to \(address) in clear\(secret). Write rediss://, or keep "
      + "the store on a private network."
  }
}

extension SettingType where Value == StoreAddress {
  fileprivate static let storeAddress = string(
    "write \"redis://host:6379\", \"rediss://host:6379\" for TLS, or \"unix:///run/redis.sock\""
  ) { (text, remedy) throws(InvalidValue) in
    guard !text.contains("@") else {
      throw InvalidValue(
        "has a user or a password in the URL", remedy: "write shared.user and shared.passwordFile instead")
    }
    if let address = StoreAddress(text) { return address }
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    if parts.count == 4, let number = Int(parts[3]), StoreAddress(parts[..<3].joined(separator: "/")) != nil {
      throw InvalidValue("has the number of a database in the URL", remedy: "write shared.database: \(number) instead")
    }
    throw InvalidValue("\(quotedURL(text)) is not the URL of a store", remedy: remedy)
  }
}

extension SettingType where Value == String {
  /// A prefix of keys, without braces, which have a meaning in Cluster mode.
  fileprivate static let keyPrefix = text(
    "a prefix of keys", remedy: "write 1 to 64 letters, digits, dots, dashes, colons and underscores"
  ) { text in
    let isPrefix = text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "._:-".contains($0)) }
    return isPrefix && (1...64).contains(text.utf8.count) ? text : nil
  }
}

package struct StoreFiles: Sendable {
  package let password: SecretBytes?
  /// The authorities that the server trusts for the store. Nil without TLS.
  package let authorities: TLSClientContext?
}
