import Access
import Bytes
import HTTPServer
import JSON
import Logging
import Telemetry

/// The valid settings, and all errors in the other ones.
package struct SettingsDraft: Sendable {
  package let musickit: Settings.MusicKit?
  package let token: Settings.Token?
  package let server: Settings.Server?
  package let admin: Settings.Admin?
  package let catalog: Settings.Catalog?
  package let access: Settings.Access?
  let clients: [ClientCandidate]
  package let shared: Settings.Shared?
  let audit: Settings.Audit?
  let log: Settings.Log?
  package let spanExport: Settings.SpanExport?
  /// What the layers have of each setting that needs a restart, as canonical JSON5, in the order of `Settings.known`.
  package let written: [String?]
  package let proxies: ProxyEnvironment
  package let errors: [SettingsError]
  /// The error that callers have no access at all, which prevents a start and concerns no other setting.
  package var missingAccess: SettingsError? { errors.first { $0.problem == Settings.Access.missing } }
  private let input: SettingsInput
  private let writtenWarnings: [String]
  private let recordWarning: String?
  package let entries: [SettingEntry]
  /// The files that valid settings name, whatever errors the others have. Nothing has read them yet.
  package let files: NamedFiles
  /// Whether every layer could be read. Otherwise nothing is known of the settings.
  package let isComplete: Bool

  package init(_ input: SettingsInput) {
    let layers = SettingsLayers(input, schema: Settings.schema)
    isComplete = layers.isComplete
    proxies = ProxyEnvironment(input.environment)
    var reader = SettingsReader(layers)
    var lenient = SettingsReader(layers, isLenient: true)
    let isCatalogEnabled = lenient.read(Settings.Catalog.enabled) ?? true
    musickit = Settings.MusicKit(&reader)
    token = Settings.Token(&reader)
    server = Settings.Server(&reader, host: input.host)
    admin = Settings.Admin(&reader, passed: input.host.sockets.admin)
    catalog = Settings.Catalog(&reader, proxies: proxies, allowsPlainUpstream: input.allowsPlainUpstream)
    let context = Settings.Access.ValidationContext(
      token: token, catalog: catalog, isCatalogEnabled: isCatalogEnabled,
      requestsCertificates: reader.isSet("server.tls.clientCAFile"), allowsAnonymous: input.allowsAnonymous,
      isShared: reader.isSet(Settings.Shared.url.path))
    let candidates = Settings.Access.readClients(&reader, within: context)
    clients = candidates ?? []
    access = Settings.Access(&reader, clients: candidates, within: context)
    shared = Settings.Shared(&reader)
    audit = Settings.Audit(&reader)
    log = Settings.Log(&reader, host: input.host)
    spanExport = Settings.SpanExport(&reader)
    Self.checkPorts(server, admin, &reader)
    let isDirect = reader.isSet("catalog.proxy")
    proxies.check(
      for: [isDirect ? nil : catalog?.upstream, spanExport?.endpoint.origin].compactMap { $0 }
        + clients.compactMap(\.provider), &reader)
    recordWarning = Self.checkRecord(audit, log, input, &reader)
    written = Settings.known.map { row in
      row.fixed == nil ? nil : layers.values[row.path].flatMap { row.canonical($0.content) }
    }
    let team = lenient.read(Settings.MusicKit.teamID)
    files = NamedFiles(
      team: team, keys: Settings.MusicKit.readKeys(&lenient, team: team), tls: Settings.Server.readTLS(&lenient),
      upstreamCAFile: Settings.Catalog(&lenient, proxies: proxies, allowsPlainUpstream: true)?.caFile,
      clients: clients, audit: Settings.Audit(&lenient), spanExport: Settings.SpanExport(&lenient),
      shared: Settings.Shared(&lenient), configuration: input.configurationFile, readingTime: input.readingTime)
    errors = reader.errors
    entries = layers.entries(of: Settings.known)
    let everybody = "All callers who reach this server get tokens for any origin (--unsafe-allow-anonymous)."
    writtenWarnings =
      layers.warnings + (input.allowsAnonymous ? [everybody] : Settings.Access.warningsAboutAnonymous(reader))
    self.input = input
  }

  /// Oddities that do no harm, each described in one sentence.
  package var warnings: [String] {
    let limits = access?.anonymous?.vainLimits(at: Settings.Access.anonymousPath) ?? []
    return writtenWarnings + ClientConflict.warnings(about: clients) + limits
      + [recordWarning, exposureWarning].compactMap { $0 } + input.host.sockets.warnings
      + [memoryWarning, spanExport?.plaintextWarning, shared?.plaintextWarning, rotationWarning].compactMap { $0 }
  }

  /// Rejects `audit.required` where no log would have any grant. Returns the warning about such a log.
  private static func checkRecord(
    _ audit: Settings.Audit?, _ log: Settings.Log?, _ input: SettingsInput, _ reader: inout SettingsReader
  ) -> String? {
    guard let audit, audit.file == nil, let log else { return nil }
    if log.level > .info {
      let facts = "log.level is \(quoted(log.level.rawValue)), and audit.file is not set"
      if audit.isRequired {
        reader.reject("audit.required", "is true, and there is no audit log: \(facts)", remedy: "set audit.file")
      }
      return "The server keeps no audit log, so it grants tokens without a record: \(facts)."
    }
    // A person reads the log, with short lines in colour (no-color.org).
    guard input.host.logsToTerminal, log.format == .text, (input.environment["NO_COLOR"] ?? "").isEmpty else {
      return nil
    }
    if audit.isRequired {
      reader.reject(
        "audit.required", "is true, and the log on a terminal has no grants",
        remedy: "set audit.file, or log.format: \"json\"")
    }
    return "The log on a terminal has no audit records of grants, so the server grants tokens without a record. Set "
      + "audit.file, or log.format: \"json\"."
  }

  private var rotationWarning: String? {
    guard let next = musickit?.keys.next, catalog == nil, errors.isEmpty else { return nil }
    return "\(next.setting) has the state \"next\", and catalog.enabled is false: the server cannot ask Apple Music "
      + "about the key, so it never signs. To let it sign, give it the state \"active\"."
  }

  package func complete() throws(InvalidSettings) -> Settings.Loaded {
    guard errors.isEmpty, let musickit, let token, let server, let access, let audit, let log else {
      throw InvalidSettings(errors: errors, warnings: warnings)
    }
    let settings = Settings(
      musickit: musickit, token: token, server: server, admin: admin, catalog: catalog, access: access, shared: shared,
      audit: audit, log: log, spanExport: spanExport, configurationFile: input.configurationFile)
    return Settings.Loaded(settings: settings, draft: self)
  }

  private var exposureWarning: String? {
    guard !input.allowsAnonymous, case .tcp(let host, _)? = server?.address, host.isEveryAddress,
      let anonymous = access?.anonymous, anonymous.rates.isUnlimited
    else { return nil }
    return """
      server.host is "\(host)", so every network of this machine reaches the server, and access.anonymous has no \
      rateLimit: callers without a credential may send any number of requests. Write access.anonymous.rateLimit: \
      { perSecond: 5, burst: 20 }, or server.host: "127.0.0.1".
      """
  }

  private var memoryWarning: String? {
    guard let allowed = input.host.memory, let server else { return nil }
    let budget = server.limits.memory
    let cache = catalog?.cache.maxBytes ?? 0
    // The process without connections and cache: 17 MB resident, plus a little for the allocator.
    let process = 24 << 20
    guard budget + cache + process > allowed else { return nil }
    return "server.limits.memory (\(sizeText(budget))), catalog.cache.maxBytes (\(sizeText(cache))) and about "
      + "\(sizeText(process)) for the process exceed the \(sizeText(allowed)) that its cgroup allows: the kernel "
      + "may end the process. Lower one of the two, or raise the cgroup's limit."
  }

  private static func checkPorts(_ server: Settings.Server?, _ admin: Settings.Admin?, _ reader: inout SettingsReader) {
    guard let server, let admin else { return }
    let adminPlaces =
      admin.passed.isEmpty ? SocketPlace.all(of: admin.host, port: admin.port) : SocketPlace.all(of: admin.passed)
    guard let place = server.address.places.first(where: { adminPlaces.contains(where: $0.overlaps) }) else { return }
    let port =
      switch server.address {
      case .passed: "port \(place.port) of a socket that the service manager passes"
      case .tcp, .unix: server.isPortOfPlatform ? SettingsLayers.platformPort : Settings.Server.port.path
      }
    if admin.passed.isEmpty {
      reader.reject("admin.port", "is the same as \(port)", remedy: "write another port, or 0 for a free one")
    } else {
      reader.reject(
        "admin.port", "the socket with the name admin has \(port) as well", remedy: "give one of the two another port")
    }
  }
}

/// One error in the settings. It quotes short values, but never a part of `musickit.key` or what looks like a key.
public struct SettingsError: Sendable, Equatable, CustomStringConvertible {
  /// The setting's path, such as `server.limits.idle`. Empty for the whole file.
  package let path: String
  /// Nil if the setting is missing.
  package let source: SettingSource?
  /// The problem: `is not set`.
  package let problem: String
  /// The advice: `write a whole number from 0 to 65535`. Nil if the problem already contains it.
  package let remedy: String?

  package init(_ path: String, source: SettingSource? = nil, problem: String, remedy: String? = nil) {
    (self.path, self.source, self.problem, self.remedy) = (path, source, problem, remedy)
  }

  /// The error on one line.
  public var description: String {
    let place = path.isEmpty ? source.map { "\($0)" } ?? "" : path + (source.map { " (\($0))" } ?? "")
    return "\(place): \(InvalidValue(problem, remedy: remedy))"
  }
}

extension [SettingsError] {
  package var lines: [String] {
    let most = 100
    let rest = count - most
    return prefix(most).map(\.description)
      + (rest > 0 ? [rest == 1 ? "There is 1 more error." : "There are \(rest) more errors."] : [])
  }
}

/// Settings with which a server cannot start: all errors at once, to be fixed before the next start.
public struct InvalidSettings: Error, Sendable, CustomStringConvertible {
  /// The errors. There is at least one.
  public let errors: [SettingsError]
  package let warnings: [String]

  package init(errors: [SettingsError], warnings: [String]) { (self.errors, self.warnings) = (errors, warnings) }

  /// The errors, one per line.
  public var description: String { errors.lines.joined(separator: "\n") }
}

/// The problem with a value, independent of its setting: problem and advice, as those of ``SettingsError``.
package struct InvalidValue: Error, Equatable, CustomStringConvertible {
  package let problem: String
  package let remedy: String?

  package init(_ problem: String, remedy: String?) { (self.problem, self.remedy) = (problem, remedy) }
  package var description: String { problem + (remedy.map { "; \($0)." } ?? "") }

  static let unexpandedHome = InvalidValue(
    "begins with ~, which a shell expands and this server does not",
    remedy: "write the path in full, as in /home/music/AuthKey_ABC1234567.p8")

  static func wrongType(_ content: RawSetting.Content, remedy: String) -> InvalidValue {
    switch content {
    case .json(let value): InvalidValue("is \(value.kind)", remedy: remedy)
    case .text: InvalidValue("is text", remedy: remedy)
    case .secret: InvalidValue("is a secret", remedy: remedy)
    }
  }
}

/// Returns `value` for an error: escaped, and never if it is long or could be part of a key.
///
/// Operators paste a signing key into the wrong setting. The shortest PKCS#8 form of a P-256 key has 92 base64
/// characters. So a text that is longer than most paths, or contains PEM's dashes, the prefix of an API key, or a URL's
/// user, password or query, is only described.
package func quoted(_ value: String) -> String {
  isQuotable(value) ? "\"\(escaped(value))\"" : "the value (\(value.utf8.count) bytes)"
}

/// Returns a URL for an error. The text before an `@` may be a password, and a query may have one.
func quotedURL(_ text: String) -> String { text.contains(where: { "@?".contains($0) }) ? "the URL" : quoted(text) }

/// Returns a file's path for an error: from the root, so that it shows in which folder the server looked for the file.
package func quotedPath(_ path: String) -> String {
  // A path may be longer than other values. The base64 of a key begins with MI, and has lines longer than a name.
  let isLongPath =
    path.hasPrefix("/") && path.utf8.count <= 255 && !Printable.holdsCredentials(path) && !isKeyLine(path)
    && path.split(separator: "/").allSatisfy { isQuotable(String($0)) }
  guard isQuotable(path) || isLongPath, !looksLikeKey(path) else { return quoted(path) }
  return "\"\(escaped(Printable.absolute(path)))\""
}

/// Returns `value` for an error without quotation marks: a member's name in a path, a number, an origin.
func shown(_ value: String) -> String { isQuotable(value) ? escaped(value) : "…" }

private func escaped(_ value: String) -> String {
  value.unicodeScalars.map { $0.isASCII && $0.value >= 0x20 && $0.value != 0x7F ? String($0) : "?" }.joined()
}

/// Returns whether `value` is short and does not look like a part of a key, or like a URL with credentials or a query.
func isQuotable(_ value: String) -> Bool {
  // The case is ignored, because the name of a host becomes lower case.
  value.utf8.count <= 64 && !value.contains("--") && !value.contains("PRIVATE")
    && !value.lowercased().contains(apiKeyPrefix) && !(value.contains("://") && value.contains("?"))
    && !Printable.holdsCredentials(value) && !isKeyLine(value)
}

private let apiKeyPrefix = "mkts_"

/// Returns whether `text` contains an API key, or a long part of one. `mkts_server.pem` may be the name of a file.
func holdsAPIKey(_ text: String) -> Bool {
  text.split(separator: apiKeyPrefix, omittingEmptySubsequences: false).dropFirst().contains { rest in
    rest.prefix { $0.isASCII && ($0.isLetter || $0.isNumber) }.count >= 16
  }
}

/// Returns whether `text` may be one line of a key's PEM, which is what remains in a file of variables: 40 characters of
/// base64 or more. Words and hexadecimal digits do not have several capitals, small letters and digits.
func isKeyLine(_ text: String) -> Bool {
  func count(_ range: ClosedRange<Unicode.Scalar>) -> Int { text.unicodeScalars.count(where: range.contains) }
  let counts = [count("A"..."Z"), count("a"..."z"), count("0"..."9")]
  let others = text.unicodeScalars.count(where: "+/=".unicodeScalars.contains)
  return text.utf8.count >= 40 && counts.allSatisfy { $0 >= 3 } && counts.reduce(others, +) == text.utf8.count
}

/// Returns whether `text`, instead of a path, is a key: PEM, an API key, or base64 of 80 bytes or more, which is too
/// long for a relative path without a dot. If the text does not look like a key, an error may quote it as a path.
package func looksLikeKey(_ text: String) -> Bool {
  if text.contains("PRIVATE KEY") || text.contains("-----") || holdsAPIKey(text) { return true }
  guard !text.hasPrefix("/"), !text.hasPrefix(".") else { return false }
  if isKeyLine(text) { return true }
  guard text.utf8.count >= 80 else { return false }
  return text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "+/=-_\\".contains($0) || $0.isWhitespace) }
}
