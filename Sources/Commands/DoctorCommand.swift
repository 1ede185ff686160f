import Access
import CatalogProxy
import DeveloperToken
import Glibc
import HTTPMessages
public import ServerSettings
import TokenServer

/// Finds out why tokens fail: checks settings, key, token and origin, and then the way to Apple Music.
public struct DoctorCommand: Sendable {
  /// The source of a music user token.
  public enum UserToken: Sendable {
    /// The token itself.
    case text(String)
    /// A file with this path. `-` is standard input.
    case file(String)
  }

  static let userTokenOption = "--user-token"

  /// A music user token has at most 4 KiB, as the catalog forwards them.
  private static let secret = CommandSecret(
    name: "music user token", limit: 4096, content: "the token that MusicKit returned to the app")

  private let input: SettingsInput
  private let origin: String?
  private let userToken: UserToken?
  private let isJSON: Bool

  /// Creates the command with the sources of the settings and the values of its flags.
  public init(_ input: SettingsInput, origin: String?, userToken: UserToken?, isJSON: Bool) {
    (self.input, self.origin, self.userToken, self.isJSON) = (input, origin, userToken, isJSON)
  }

  /// Makes all checks and returns the report.
  ///
  /// - Parameter input: The descriptor of standard input.
  public func run(input descriptor: Int32) -> CommandResult {
    let userToken: String?
    do {
      userToken = try self.userToken.map { (source) throws(CommandError) in
        switch source {
        case .text(let text): try Self.secret.read(Array(text.utf8))
        case .file(let path): try Self.secret.read(file: path, input: descriptor)
        }
      }
    } catch {
      return CommandResult(error, otherwise: .usage)
    }
    var diagnosis = Diagnosis(of: Diagnosis.Subject.ofMachine)
    let warnings = examine(&diagnosis, userToken)
    // serve ends with the same status for all three.
    let isUnusable = [Diagnosis.Subject.settings, .access, .key].contains { diagnosis.has(.fail, $0) }
    let status: CommandResult.Status = isUnusable ? .configuration : diagnosis.isHealthy ? .good : .failed
    return CommandResult(
      status, output: diagnosis.output(isJSON: isJSON), diagnostics: warnings.map { "Warning: \($0)" })
  }

  /// Makes the checks in their order. One that has failed hides only what needs its result. Returns the warnings of the
  /// settings.
  private func examine(_ diagnosis: inout Diagnosis, _ userToken: String?) -> [String] {
    if origin == nil { diagnosis.skip(.origin, because: "--origin names none.") }
    if userToken == nil { diagnosis.skip(.userToken, because: "--user-token-file names none.") }
    let draft = SettingsDraft(input)
    guard draft.isComplete else {
      diagnosis.fail(.settings, draft.errors.lines, fix: nil)
      return draft.warnings
    }
    let files = draft.files.load()
    judge(draft, files.errors, &diagnosis)
    let keys = judgeKeys(in: files, &diagnosis)
    LocalDiagnosis(draft: draft, tls: files.tls).run(&diagnosis)
    let tokens = keys.flatMap { mint(with: $0, draft, &diagnosis) }
    checkOrigin(draft, &diagnosis)
    if let access = draft.access, let keySets = files.keySets {
      ProviderDiagnosis(clients: access.clients, files: keySets, proxies: draft.proxies).run(&diagnosis)
    }
    StoreDiagnosis.run(draft, files, &diagnosis)
    CollectorDiagnosis.run(draft, files, &diagnosis)
    checkUpstream(draft, files, tokens, userToken, &diagnosis)
    return draft.warnings + files.warnings
  }

  private func judge(_ draft: SettingsDraft, _ fileErrors: [SettingsError], _ diagnosis: inout Diagnosis) {
    let errors =
      draft.errors.filter { $0 != draft.missingAccess } + fileErrors.filter { !$0.path.hasPrefix("musickit") }
    if errors.isEmpty, let summary = draft.summary {
      let subject = draft.missingAccess == nil ? "The configuration is" : "All settings except access are"
      diagnosis.pass(.settings, "\(subject) valid: \(summary)")
    } else {
      diagnosis.fail(.settings, errors.lines, fix: nil, blocks: false)
    }
    if let error = draft.missingAccess {
      diagnosis.fail(.access, error.description, fix: "Until then, serve does not start.", blocks: false)
    } else if let access = draft.access {
      let count = access.clients.count
      let clients = count > 0 ? [count == 1 ? "one client" : "\(count) clients"] : []
      let callers = clients + (access.anonymous == nil ? [] : ["callers without a credential"])
      diagnosis.pass(.access, "The settings give access to \(callers.joined(separator: " and to ")).")
    } else {
      diagnosis.skip(.access, dependsOn: .settings)
    }
  }

  private func judgeKeys(
    in files: FileParts, _ diagnosis: inout Diagnosis
  ) -> (active: SigningKey, next: SigningKey?)? {
    let errors = files.errors.filter { $0.path.hasPrefix("musickit") }
    guard errors.isEmpty, let keys = files.keys else {
      let cause = errors.isEmpty ? Diagnosis.Subject.settings : .key
      if errors.isEmpty { diagnosis.skip(.key, dependsOn: .settings) }
      if !errors.isEmpty { diagnosis.fail(.key, errors.lines, fix: nil, blocks: false) }
      for subject in [Diagnosis.Subject.token, .nextKey] { diagnosis.skip(subject, dependsOn: cause) }
      return nil
    }
    let named = [("Key", keys.active)] + (keys.next.map { [("Next key", $0)] } ?? [])
    let found = named.map { "\($0) \($1.keyID) is usable, fingerprint \($1.fingerprint)." }
    diagnosis.pass(.key, found.joined(separator: " "))
    if keys.next == nil { diagnosis.skip(.nextKey, because: "musickit.keys names no next key.") }
    return keys
  }

  private func checkUpstream(
    _ draft: SettingsDraft, _ files: FileParts, _ tokens: UpstreamDiagnosis.Tokens?, _ userToken: String?,
    _ diagnosis: inout Diagnosis
  ) {
    let subjects = Diagnosis.Subject.ofMachine.drop { $0 != .dns }
    guard let catalog = draft.catalog, let authorities = files.upstreamAuthorities else {
      let isInvalid = (draft.errors + files.errors).contains { $0.path.hasPrefix("catalog") }
      for subject in subjects {
        if isInvalid {
          diagnosis.skip(subject, dependsOn: .settings)
        } else {
          diagnosis.skip(
            subject, because: "catalog.enabled is false, so the server sends nothing to Apple Music.")
        }
      }
      return
    }
    UpstreamDiagnosis(settings: catalog).run(tokens, userToken, authorities: authorities, &diagnosis)
  }

  /// Mints a token with each key and inspects it. Returns nil if this fails.
  private func mint(
    with keys: (active: SigningKey, next: SigningKey?), _ draft: SettingsDraft, _ diagnosis: inout Diagnosis
  ) -> UpstreamDiagnosis.Tokens? {
    guard let team = draft.musickit?.teamID, let settings = draft.token else {
      diagnosis.skip(.token, dependsOn: .settings)
      return nil
    }
    do {
      let tokens = UpstreamDiagnosis.Tokens(
        team: team, active: try Self.token(of: keys.active, team, settings),
        next: try keys.next.map { try Self.token(of: $0, team, settings) })
      diagnosis.pass(.token, "A new token passes every check of inspect, and the key signed it.")
      return tokens
    } catch {
      diagnosis.fail(.token, "\(error)", fix: nil, blocks: false)
      return nil
    }
  }

  private static func token(
    of key: SigningKey, _ team: TeamID, _ settings: Settings.Token
  ) throws -> UpstreamDiagnosis.Token {
    let now = Glibc.time(nil)
    let minter = try TokenMinter(key: key, team: team, policy: try settings.policy())
    let token = try CatalogTokens(minter: minter).mint(now: now)
    let inspection = Inspector(key: key.verificationKey, now: now).inspect(token.text)
    guard inspection.isAcceptable else {
      let failures = inspection.checks.filter { $0.verdict == .fail }.map(\.explanation)
      throw CommandError(.failed, failures.joined(separator: " "))
    }
    return UpstreamDiagnosis.Token(key: key.keyID, text: token.text)
  }

  /// Checks that a client has the origin, so that browsers let its pages read responses (the Fetch standard, §3.3).
  private func checkOrigin(_ draft: SettingsDraft, _ diagnosis: inout Diagnosis) {
    guard let origin else { return }
    guard let access = draft.access else {
      return diagnosis.skip(.origin, dependsOn: draft.missingAccess == nil ? .settings : .access)
    }
    do throws(OriginError) {
      let origin = try Origin(origin)
      let clients = (access.clients + [access.anonymous].compactMap { $0 }).filter {
        $0.mayHaveAnything && $0.origins.allows(origin)
      }
      guard AccessPolicy(clients: access.clients, anonymous: access.anonymous).mayRead(origin) else {
        return diagnosis.fail(
          .origin, "No client has the origin \(origin), so browsers hide every response from its pages (CORS).",
          fix: "Add it to the origins of a client in access.clients.", blocks: false)
      }
      let shown = clients.prefix(8).map(\.id).joined(separator: ", ")
      let rest = clients.count > 8 ? " and \(clients.count - 8) more" : ""
      diagnosis.pass(.origin, "Pages of \(origin) may read responses, for the clients: \(shown)\(rest).")
    } catch {
      diagnosis.fail(
        .origin, "\(error)", fix: "Write it as the browser sends it, as in https://app.example.com.", blocks: false)
    }
  }
}

/// Finds out why a running server refuses a caller: reads the credential, asks the admin listener, and reports.
public struct ServerDoctorCommand: Sendable {
  /// The limit is that of a field line on the public listener, and more than any JWT has.
  private static let secret = CommandSecret(
    name: "credential", limit: 16_384, content: "the API key or the JWT, without Authorization or Bearer")

  private let url: String
  private let credentialFile: String?
  private let origin: String?
  private let path: String?
  private let isJSON: Bool

  /// Creates the command with the URL of the admin listener, and a request as the operator describes it.
  ///
  /// - Parameters:
  ///   - credentialFile: The file with the API key or the JWT; `-` is standard input. Nil for a caller without one.
  ///   - origin: The origin of the caller's page; nil for a program.
  ///   - path: The path that the caller requests; nil for `/token`.
  public init(url: String, credentialFile: String?, origin: String?, path: String?, isJSON: Bool) {
    (self.url, self.credentialFile, self.origin) = (url, credentialFile, origin)
    (self.path, self.isJSON) = (path, isJSON)
  }

  /// Makes all checks and returns the report.
  ///
  /// - Parameter input: The descriptor of standard input.
  public func run(input descriptor: Int32) -> CommandResult {
    do {
      let url = try HealthCheckURL(url)
      guard url.target == "/" else {
        throw CommandError(.usage, "--url takes the address of the admin listener, without a path.")
      }
      let credential = try credentialFile.map { try Self.secret.read(file: $0, input: descriptor) }
      var diagnosis = Diagnosis(of: Diagnosis.Subject.ofServer)
      try ServerDiagnosis(url: url, credential: credential, origin: origin, path: path).run(&diagnosis)
      return CommandResult(diagnosis.isHealthy ? .good : .failed, output: diagnosis.output(isJSON: isJSON))
    } catch {
      return CommandResult(error, otherwise: .failed)
    }
  }
}

/// A secret text that a command reads from a file, from standard input, or from its arguments.
struct CommandSecret {
  /// The name for errors, such as `music user token`.
  let name: String
  let limit: Int
  /// What the file should have.
  let content: String

  /// Reads a file, or standard input for `-`.
  ///
  /// - Parameter input: The descriptor of standard input.
  /// - Throws: A sentence that does not quote the text.
  func read(file: String, input: Int32) throws(CommandError) -> String {
    let bytes: [UInt8]
    do throws(SmallFile.Failure) {
      bytes =
        file == "-"
        ? try SmallFile.read(input, atMost: 2 * limit, within: nil) : try SmallFile.read(file, atMost: 2 * limit)
    } catch {
      throw CommandError(.usage, "The file of the \(name) \(error).")
    }
    return try read(bytes)
  }

  func read(_ bytes: [UInt8]) throws(CommandError) -> String {
    let isSpace = { (byte: UInt8) in byte == 0x20 || (0x09...0x0D).contains(byte) }
    let secret: [UInt8] = bytes.drop(while: isSpace).reversed().drop(while: isSpace).reversed()
    guard !String(decoding: secret, as: UTF8.self).contains("PRIVATE KEY") else { throw isPrivateKey }
    guard !secret.isEmpty, secret.count <= limit, secret.allSatisfy({ (0x21...0x7E).contains($0) }) else {
      throw CommandError(
        .usage, "The \(name) is not 1 to \(limit) visible ASCII characters. Write \(content), and nothing else.")
    }
    let text = String(decoding: secret, as: UTF8.self)
    guard !Self.isKey(text) else { throw isPrivateKey }
    return text
  }

  private var isPrivateKey: CommandError { CommandError(.usage, "The \(name) is a private key. Keep it secret.") }

  /// Whether the text is a private key, which is as long as a token and has the same characters. Only PEM, or the first
  /// bytes of a P-256 key in PKCS #8 or SEC 1, show the difference.
  static func isKey(_ text: String) -> Bool {
    text.contains("PRIVATE KEY") || text.contains("-----") || text.hasPrefix("MIG") || text.hasPrefix("MHc")
  }
}
