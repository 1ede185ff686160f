import Access
import CatalogProxy
import DeveloperToken
import Glibc
import HTTPMessages
public import ServerSettings

/// Finds out why tokens fail: checks settings, key, token and origin, and then the way to Apple Music.
public struct DoctorCommand: Sendable {
  /// The source of a music user token.
  public enum UserToken: Sendable {
    /// The token itself.
    case text(String)
    /// A file with this path. `-` is standard input.
    case file(String)
  }

  /// The option with a music user token as its value.
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
      userToken = try self.userToken.map { (source) throws(CommandSecret.Unreadable) in
        switch source {
        case .text(let text): try Self.secret.read(Array(text.utf8))
        case .file(let path): try Self.secret.read(file: path, input: descriptor)
        }
      }
    } catch {
      return CommandResult(.usage, diagnostics: [error.description])
    }
    var diagnosis = Diagnosis(of: Diagnosis.Subject.ofMachine)
    let warnings = examine(&diagnosis, userToken)
    // serve ends with the same status for both.
    let isUnusable = diagnosis.has(.fail, .settings) || diagnosis.has(.fail, .key)
    let status: CommandResult.Status = isUnusable ? .configuration : diagnosis.isHealthy ? .good : .failed
    return CommandResult(
      status, output: diagnosis.output(isJSON: isJSON), diagnostics: warnings.map { "Warning: \($0)" })
  }

  // MARK: Checks without a network

  /// Makes the checks in their order, each of which needs the results before it. Returns the warnings of the settings.
  private func examine(_ diagnosis: inout Diagnosis, _ userToken: String?) -> [String] {
    if origin == nil { diagnosis.skip(.origin, because: "--origin names none.") }
    if userToken == nil { diagnosis.skip(.userToken, because: "--user-token-file names none.") }
    let draft = SettingsDraft(input)
    let files = draft.files.load()
    let warnings = draft.warnings + files.warnings
    let keyErrors = files.errors.filter { $0.path.hasPrefix("musickit") }
    let errors = draft.errors + files.errors.filter { !$0.path.hasPrefix("musickit") }
    if !errors.isEmpty { diagnosis.fail(.settings, errors.lines, fix: nil) }
    if !keyErrors.isEmpty { diagnosis.fail(.key, keyErrors.lines, fix: nil) }
    guard errors.isEmpty, let settings = try? draft.complete().settings else { return warnings }
    diagnosis.pass(.settings, settings.summary)
    guard let loaded = files.files else { return warnings }
    let keys = [("Key", loaded.key)] + (loaded.nextKey.map { [("Next key", $0)] } ?? [])
    let found = keys.map { "\($0) \($1.keyID) is usable, fingerprint \($1.fingerprint)." }
    diagnosis.pass(.key, found.joined(separator: " "))
    if loaded.nextKey == nil { diagnosis.skip(.nextKey, because: "musickit.keys names no next key.") }
    guard let tokens = mint(with: loaded, settings, &diagnosis) else { return warnings }
    checkOrigin(settings, &diagnosis)
    ProviderDiagnosis(settings.access.clients, loaded.keySets, draft.proxies).run(&diagnosis)
    guard let catalog = settings.catalog else {
      let reason = "catalog.enabled is false, so the server sends nothing to Apple Music."
      for subject in Diagnosis.Subject.ofMachine.drop(while: { $0 != .dns }) {
        diagnosis.skip(subject, because: reason)
      }
      return warnings
    }
    UpstreamDiagnosis(catalog, team: settings.musickit.teamID).run(
      tokens, userToken, authorities: loaded.upstreamAuthorities, &diagnosis)
    return warnings
  }

  /// Mints a token with each key and inspects it. Returns nil if this fails.
  private func mint(
    with files: LoadedFiles, _ settings: Settings, _ diagnosis: inout Diagnosis
  ) -> UpstreamDiagnosis.Tokens? {
    do {
      let tokens = UpstreamDiagnosis.Tokens(
        active: try Self.token(of: files.key, settings),
        next: try files.nextKey.map { try Self.token(of: $0, settings) })
      diagnosis.pass(.token, "A new token passes every check of inspect, and the key signed it.")
      return tokens
    } catch {
      diagnosis.fail(.token, "\(error)", fix: nil)
      return nil
    }
  }

  private struct UnacceptableToken: Error, CustomStringConvertible {
    let description: String
  }

  private static func token(of key: SigningKey, _ settings: Settings) throws -> UpstreamDiagnosis.Token {
    let now = Glibc.time(nil)
    let minter = try TokenMinter(key: key, team: settings.musickit.teamID, policy: try settings.token.policy())
    let token = try CatalogTokens(minter: minter).mint(now: now)
    let inspection = Inspector(key: key.verificationKey, now: now).inspect(token.text)
    guard inspection.isAcceptable else {
      let failures = inspection.checks.filter { $0.verdict == .fail }.map(\.explanation)
      throw UnacceptableToken(description: failures.joined(separator: " "))
    }
    return UpstreamDiagnosis.Token(key: key.keyID, text: token.text)
  }

  /// Checks that a client has the origin, so that browsers let its pages read responses (the Fetch standard, §3.3).
  private func checkOrigin(_ settings: Settings, _ diagnosis: inout Diagnosis) {
    guard let origin else { return }
    do throws(OriginError) {
      let origin = try Origin(origin)
      let access = settings.access
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
