import Access
import Bytes
import HTTPServer

/// The settings that could be read, and all errors in them.
package struct SettingsDraft {
  let musickit: Settings.MusicKit?
  let token: Settings.Token?
  let server: Settings.Server?
  let admin: Settings.Admin?
  let catalog: Settings.Catalog?
  let access: Settings.Access?
  /// What could be read of each of its clients.
  let clients: [ClientCandidate]
  let audit: Settings.Audit?
  let log: Settings.Log?
  let configurationFile: String?
  let proxies: ProxyEnvironment
  package let errors: [SettingsError]
  package let warnings: [String]

  /// Reads every setting of `input`.
  package init(_ input: SettingsInput) {
    let layers = SettingsLayers(input, schema: Settings.schema)
    var reader = SettingsReader(layers)
    musickit = Settings.MusicKit(&reader)
    token = Settings.Token(&reader)
    server = Settings.Server(&reader, host: input.host)
    admin = Settings.Admin(&reader)
    catalog = Settings.Catalog(
      &reader, environment: input.environment, allowsPlainUpstream: input.allowsPlainUpstream)
    let context = Settings.Access.ValidationContext(
      token: token, catalog: catalog, server: server, allowsAnonymous: input.allowsAnonymous)
    let candidates = Settings.Access.readClients(&reader, within: context)
    clients = candidates ?? []
    access = Settings.Access(&reader, clients: candidates, within: context)
    audit = Settings.Audit(&reader)
    log = Settings.Log(&reader, host: input.host)
    Self.checkPorts(server, admin, &reader)
    configurationFile = input.configurationFile
    proxies = ProxyEnvironment(input.environment)
    errors = reader.errors
    let everybody = "Everybody who reaches this server gets tokens for any origin (--unsafe-allow-anonymous)."
    warnings =
      layers.warnings
      + (input.allowsAnonymous ? [everybody] : Settings.Access.warningsAboutAnonymous(reader))
      + [Self.exposureWarning(server, access, input)].compactMap { $0 }
      + [Self.memoryWarning(server, catalog, input.host)].compactMap { $0 }
  }

  /// The settings, if nothing is wrong with them.
  package func complete() throws(InvalidSettings) -> Settings.Loaded {
    guard errors.isEmpty, let musickit, let token, let server, let access, let audit, let log
    else {
      throw InvalidSettings(errors: errors, warnings: warnings)
    }
    let settings = Settings(
      musickit: musickit, token: token, server: server, admin: admin, catalog: catalog, access: access,
      audit: audit, log: log, configurationFile: configurationFile)
    return Settings.Loaded(settings: settings, files: files, warnings: warnings, proxies: proxies)
  }

  /// The files that the readable settings name.
  package var files: NamedFiles {
    NamedFiles(musickit: musickit, tls: server?.tls, catalog: catalog, clients: clients, audit: audit)
  }

  /// What to say if callers without credentials reach the server from every network, as often as they like.
  private static func exposureWarning(
    _ server: Settings.Server?, _ access: Settings.Access?, _ input: SettingsInput
  ) -> String? {
    guard !input.allowsAnonymous, case .tcp(let host, _)? = server?.address, host.isEveryAddress,
      let anonymous = access?.anonymous, anonymous.rates.isUnlimited
    else { return nil }
    return """
      server.host is "\(host)", so every network of this machine reaches the server, and access.anonymous has no \
      rateLimit: callers without a credential may send any number of requests. Write access.anonymous.rateLimit: \
      { perSecond: 5, burst: 20 }, or server.host: "127.0.0.1".
      """
  }

  /// What to say if the budget, the cache and the process itself together exceed what its control groups allow: the
  /// kernel would end the process before the budget refuses anything.
  private static func memoryWarning(
    _ server: Settings.Server?, _ catalog: Settings.Catalog?, _ host: HostFacts
  ) -> String? {
    guard let allowed = host.memory, let server else { return nil }
    let budget = server.limits.memory
    let cache = catalog?.cache.maxBytes ?? 0
    guard budget + cache + processMemory > allowed else { return nil }
    return
      "server.limits.memory (\(sizeText(budget))), catalog.cache.maxBytes (\(sizeText(cache))) and about "
      + "\(sizeText(processMemory)) for the process exceed the \(sizeText(allowed)) that its cgroup allows: the kernel "
      + "may end the process. Lower one of the two, or raise the cgroup's limit."
  }

  /// What the process takes without connections and cache: 17 MB resident, and a little for the allocator.
  private static let processMemory = 24 << 20

  private static func checkPorts(
    _ server: Settings.Server?, _ admin: Settings.Admin?, _ reader: inout SettingsReader
  ) {
    guard let admin, admin.port != 0, case .tcp(let host, admin.port)? = server?.address else { return }
    guard host == admin.host || host == .any || admin.host == .any else { return }
    let remedy = "write another port, or 0 for a free one"
    reader.reject(Settings.Admin.port.path, problem: "is the same as server.port", remedy: remedy)
  }
}

/// One thing that is wrong with the settings.
///
/// An error quotes short values so that they can be found again, but never anything of `musickit.key` and nothing that
/// looks like key material in any other place.
public struct SettingsError: Sendable, Equatable, CustomStringConvertible {
  /// The setting's path, such as `server.limits.idle`; the whole file's is empty.
  public let path: String
  /// Where it was written; nil if it is missing.
  public let source: SettingSource?
  /// What is wrong: `is not set`.
  public let problem: String
  /// What would be right: `write a whole number from 0 to 65535`; nil if the problem is sentences that say it.
  public let remedy: String?

  /// An error at `path`.
  public init(_ path: String, source: SettingSource? = nil, problem: String, remedy: String? = nil) {
    self.path = path
    self.source = source
    self.problem = problem
    self.remedy = remedy
  }

  /// An error of a value at `path`.
  init(_ path: String, source: SettingSource?, _ value: InvalidValue) {
    self.init(path, source: source, problem: value.problem, remedy: value.remedy)
  }

  /// The error on one line.
  public var description: String {
    let place = path.isEmpty ? source.map { "\($0)" } ?? "" : path + (source.map { " (\($0))" } ?? "")
    return "\(place): \(InvalidValue(problem: problem, remedy: remedy))"
  }
}

extension [SettingsError] {
  /// One line for each error up to a readable number, and then one line with the number of the others.
  package var lines: [String] {
    let most = 100
    let rest = count - most
    return prefix(most).map(\.description)
      + (rest > 0 ? [rest == 1 ? "There is 1 more error." : "There are \(rest) more errors."] : [])
  }
}

/// Settings that a server cannot start with. It contains every error at once, so that an operator can fix all of them
/// before the next start.
public struct InvalidSettings: Error, Sendable, CustomStringConvertible {
  /// At least one.
  public let errors: [SettingsError]
  /// What is odd but harmless.
  public let warnings: [String]

  /// All that is wrong with the settings.
  package init(errors: [SettingsError], warnings: [String]) {
    self.errors = errors
    self.warnings = warnings
  }

  /// The errors, one a line.
  public var description: String { errors.lines.joined(separator: "\n") }
}

/// Why a value does not suit a setting, before it is known which setting that is.
package struct InvalidValue: Error, Equatable, CustomStringConvertible {
  /// `"80a" is not a whole number`.
  package let problem: String
  /// `write one from 0 to 65535`; nil if the problem is sentences that say it.
  package let remedy: String?

  /// A problem, and what to do about it.
  package init(problem: String, remedy: String?) {
    self.problem = problem
    self.remedy = remedy
  }

  /// The problem, and the remedy if there is one.
  package var description: String { problem + (remedy.map { "; \($0)." } ?? "") }
}

extension InvalidValue {
  /// A path that begins with `~`.
  static let unexpandedHome = InvalidValue(
    problem: "begins with ~, which a shell expands and this server does not",
    remedy: "write the path in full, as in /home/music/AuthKey_ABC1234567.p8")

  /// A value of another type than the wanted one.
  static func wrongType(_ content: RawSetting.Content, remedy: String) -> InvalidValue {
    switch content {
    case .json(.null): InvalidValue(problem: "is null", remedy: remedy)
    case .json(let value): InvalidValue(problem: "is \(value.kind)", remedy: remedy)
    case .text: InvalidValue(problem: "is text", remedy: remedy)
    case .secret: InvalidValue(problem: "is a secret", remedy: remedy)
    }
  }
}

/// `value` as an error may show it: escaped, and never at length or where it might be key material.
///
/// People paste a signing key into the wrong setting. The shortest PKCS#8 form of a P-256 key is 92 base64 characters,
/// so what is longer than a file's path usually is gets described instead, and so does whatever bears PEM's dashes or
/// the beginning of an API key.
package func quoted(_ value: String) -> String {
  isQuotable(value) ? "\"\(escaped(value))\"" : "the value (\(value.utf8.count) bytes)"
}

/// A file's path as an error may show it: from the root, so that it says in which folder the file was looked for.
func quotedPath(_ path: String) -> String {
  isQuotable(path) && !looksLikeKey(path) ? "\"\(escaped(Printable.absolute(path)))\"" : quoted(path)
}

/// `value` as it may stand in an error without quotation marks: a member's name in a path, a number, an origin.
func shown(_ value: String) -> String {
  isQuotable(value) ? escaped(value) : "…"
}

private func escaped(_ value: String) -> String {
  value.unicodeScalars.map { $0.isASCII && $0.value >= 0x20 && $0.value != 0x7F ? String($0) : "?" }.joined()
}

/// Whether `value` is short and does not look like a part of a key.
func isQuotable(_ value: String) -> Bool {
  // Not in another case of letters either: a host's name loses its capitals.
  value.utf8.count <= 64 && !value.contains("--") && !value.contains("PRIVATE")
    && !value.lowercased().contains(apiKeyPrefix)
}

/// What the keys of `new-api-key` begin with.
private let apiKeyPrefix = "mkts_"

/// Whether `text` has an API key in it, or so much of one that it is no word: `mkts_server.pem` may be a file's name.
func holdsAPIKey(_ text: String) -> Bool {
  text.split(separator: apiKeyPrefix, omittingEmptySubsequences: false).dropFirst().contains { rest in
    rest.prefix { $0.isASCII && ($0.isLetter || $0.isNumber) }.count >= 16
  }
}

/// Whether `text`, where a path should be, is a key itself: PEM, an API key, or base64 of 80 bytes or more, which is
/// too long for a relative path without a dot. If the text does not look like a key, an error may quote it as a path.
package func looksLikeKey(_ text: String) -> Bool {
  if text.contains("PRIVATE KEY") || text.contains("-----") || holdsAPIKey(text) { return true }
  guard text.utf8.count >= 80, !text.hasPrefix("/"), !text.hasPrefix(".") else { return false }
  return text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "+/=-_\\".contains($0) || $0.isWhitespace) }
}
