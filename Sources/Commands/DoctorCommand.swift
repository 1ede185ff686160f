import Access
import ArgumentParser
import CatalogProxy
import DeveloperToken
import Glibc
import HTTPMessages
import ServerSettings
import TokenServer

struct DoctorCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "doctor", abstract: "Find out why tokens fail, or why a running server refuses a caller.",
    discussion: """
      Without --url, it checks the settings, the key, what the server depends on (ports, certificates, identity \
      providers, store, collector of spans), and then each step to Apple Music in this order. With --url, it \
      asks the admin listener of a running server which client a credential belongs to, whether the server grants the \
      request, and whether browsers let pages of the origin read the response.

      Each check has a line with ✓ if it passes, ✗ if it fails, or – if it is skipped, and the fix. A check that \
      depends on a failed one is skipped. The exit status is 0 if no check fails, 1 if one fails, 78 if serve could not \
      start with the settings or a key, and 64 for wrong usage, without any report.
      """)

  @Option(help: ArgumentHelp("The address of a running server's admin listener, http:// only.", valueName: "url"))
  var url: String?
  @Option(
    help: ArgumentHelp("With --url: the file of a caller's API key or JWT; - is standard input.", valueName: "file"))
  var credentialFile: String?
  @Option(help: ArgumentHelp("With --url: the path that the caller requests. Default: /token.", valueName: "path"))
  var path: String?
  @Option(help: ArgumentHelp("The web origin whose pages use the server.", valueName: "origin"))
  var origin: String?
  @Option(help: ArgumentHelp("The file of a music user token to check; - is standard input.", valueName: "file"))
  var userTokenFile: String?
  @Option(help: ArgumentHelp("The music user token itself. Other users of the machine can see it.", valueName: "token"))
  var userToken: String?
  @Flag(help: "Print a JSON object.")
  var json = false
  @OptionGroup var settings: SettingsOptions

  func validate() throws {
    guard userToken == nil || userTokenFile == nil else {
      throw ValidationError("--user-token and --user-token-file are both given; keep one of the two.")
    }
    guard url != nil || (credentialFile == nil && path == nil) else {
      throw ValidationError(
        "--credential-file and --path need --url, the address of a running server's admin listener.")
    }
    guard url == nil || (settings.isEmpty && userToken == nil && userTokenFile == nil) else {
      throw ValidationError(
        "--url checks a running server, and needs no settings and no user token: run doctor once with and once without "
          + "--url.")
    }
  }

  static let userTokenOption = "--user-token"

  /// A music user token has at most 4 KiB, as the catalog forwards them.
  private static let userSecret = CommandSecret(
    name: "music user token", limit: 4096, content: "the token that MusicKit returned to the app")

  /// The limit is that of a field line on the public listener, and more than any JWT has.
  private static let callerSecret = CommandSecret(
    name: "credential", limit: 16_384, content: "the API key or the JWT, without Authorization or Bearer")

  func run() throws { try result(input: STDIN_FILENO).finish() }

  func result(input descriptor: Int32) -> CommandResult {
    do { return try url.map { try report(on: $0, descriptor) } ?? report(descriptor) } catch {
      return CommandResult(error, otherwise: .failed)
    }
  }

  /// Asks the admin listener of a running server.
  private func report(on url: String, _ descriptor: Int32) throws -> CommandResult {
    let url = try HealthCheckURL(url)
    guard url.target == "/" else {
      throw CommandError(.usage, "--url takes the address of the admin listener, without a path.")
    }
    let credential = try credentialFile.map { try Self.callerSecret.read(file: $0, input: descriptor) }
    let diagnosis = Diagnosis(of: Diagnosis.Subject.ofServer)
    try ServerDiagnosis(url: url, credential: credential, origin: origin, path: path, diagnosis: diagnosis).run()
    return CommandResult(diagnosis.isHealthy ? .good : .failed, output: diagnosis.output(isJSON: json))
  }

  /// Checks what `serve` would use.
  private func report(_ descriptor: Int32) throws -> CommandResult {
    let userToken =
      try userToken.map { try Self.userSecret.read(Array($0.utf8)) }
      ?? userTokenFile.map { try Self.userSecret.read(file: $0, input: descriptor) }
    let diagnosis = Diagnosis(of: Diagnosis.Subject.ofMachine)
    let warnings = examine(diagnosis, userToken)
    // serve ends with the same status for all three.
    let isUnusable = [Diagnosis.Subject.settings, .access, .key].contains(where: diagnosis.hasFailed)
    let status: CommandResult.Status = isUnusable ? .configuration : diagnosis.isHealthy ? .good : .failed
    return CommandResult(status, output: diagnosis.output(isJSON: json), diagnostics: warnings.map { "Warning: \($0)" })
  }

  /// Makes the checks. A failed one hides only what needs its result. Returns the warnings of the settings.
  private func examine(_ diagnosis: Diagnosis, _ userToken: String?) -> [String] {
    if origin == nil { diagnosis.skip(.origin, because: "--origin names none.") }
    if userToken == nil { diagnosis.skip(.userToken, because: "--user-token-file names none.") }
    let draft = SettingsDraft(settings.input())
    guard draft.isComplete else {
      diagnosis.fail(.settings, draft.errors.lines)
      return draft.warnings
    }
    let files = draft.files.load()
    judge(draft, files.errors, diagnosis)
    let keys = judgeKeys(in: files, diagnosis)
    LocalDiagnosis(draft: draft, tls: files.tls, diagnosis: diagnosis).run()
    let tokens = keys.flatMap { mint(with: $0, draft, diagnosis) }
    checkOrigin(draft, diagnosis)
    if let access = draft.access, let keySets = files.keySets {
      ProviderDiagnosis(clients: access.clients, files: keySets, proxies: draft.proxies).run(diagnosis)
    }
    StoreDiagnosis.run(draft, files, diagnosis)
    CollectorDiagnosis.run(draft, files, diagnosis)
    if let catalog = draft.catalog, let authorities = files.upstreamAuthorities {
      UpstreamDiagnosis(settings: catalog, tokens: tokens, userToken: userToken, diagnosis: diagnosis).run(authorities)
    } else {
      let isInvalid = (draft.errors + files.errors).contains { $0.path.hasPrefix("catalog") }
      let reason = "catalog.enabled is false, so the server sends nothing to Apple Music."
      for subject in Diagnosis.Subject.ofMachine.drop(while: { $0 != .dns }) {
        diagnosis.skip(subject, because: isInvalid ? Diagnosis.dependence(on: .settings) : reason)
      }
    }
    return draft.warnings + files.warnings
  }

  private func judge(_ draft: SettingsDraft, _ fileErrors: [SettingsError], _ diagnosis: Diagnosis) {
    let errors =
      draft.errors.filter { $0 != draft.missingAccess } + fileErrors.filter { !$0.path.hasPrefix("musickit") }
    if errors.isEmpty, let summary = draft.summary {
      let subject = draft.missingAccess == nil ? "The configuration is" : "All settings except access are"
      diagnosis.pass(.settings, "\(subject) valid: \(summary)")
    } else {
      diagnosis.fail(.settings, errors.lines)
    }
    if let error = draft.missingAccess {
      diagnosis.fail(.access, error.description, fix: "Until then, serve does not start.")
    } else if let access = draft.access {
      let count = access.clients.count
      let clients = count > 0 ? [count == 1 ? "one client" : "\(count) clients"] : []
      let callers = clients + (access.anonymous == nil ? [] : ["callers without a credential"])
      diagnosis.pass(.access, "The settings give access to \(callers.joined(separator: " and to ")).")
    } else {
      diagnosis.skip(.access, dependsOn: .settings)
    }
  }

  private func judgeKeys(in files: LoadedFiles, _ diagnosis: Diagnosis) -> (active: SigningKey, next: SigningKey?)? {
    var errors = files.errors.filter { $0.path.hasPrefix("musickit") }.lines
    // A signer that is only down leaves the settings right, so that the token fails.
    let failure = errors.isEmpty ? Self.failure(of: files.keys?.active.remote) : nil
    if let failure, !failure.isTemporary { errors = ["\(failure)"] }
    guard errors.isEmpty else {
      diagnosis.fail(.key, errors)
      diagnosis.skip(.token, .nextKey, dependsOn: .key)
      return nil
    }
    guard let keys = files.keys else {
      diagnosis.skip(.key, .token, .nextKey, dependsOn: .settings)
      return nil
    }
    let named = [("Key", keys.active)] + (keys.next.map { [("Next key", $0)] } ?? [])
    let finding = failure == nil ? "is usable" : "has a valid public half"
    let end = failure.map { " But its signer fails. \($0)" } ?? ""
    let found = named.map { "\($0) \($1.keyID) \(finding), fingerprint \($1.fingerprint).\(end)" }
    diagnosis.pass(.key, found.joined(separator: " "))
    if keys.next == nil { diagnosis.skip(.nextKey, because: "musickit.keys names no next key.") }
    return keys
  }

  private static func failure(of signer: RemoteSigner?) -> RemoteSignerError? {
    holdingSignals {
      do throws(RemoteSignerError) { try signer?.probe { !ProcessSignals.isEndPending } } catch { return error }
      return nil
    }
  }

  /// Does what may run the signer's command. A signal ends this process when the command has ended, with the status that
  /// shells give to SIGTERM.
  private static func holdingSignals<Result>(_ work: () throws -> Result) rethrows -> Result {
    ProcessSignals.hold()
    defer {
      if ProcessSignals.isEndPending { _exit(128 + SIGTERM) }
      ProcessSignals.release()
    }
    return try work()
  }

  /// Mints a token with each key and inspects it. Returns nil if this fails.
  private func mint(
    with keys: (active: SigningKey, next: SigningKey?), _ draft: SettingsDraft, _ diagnosis: Diagnosis
  ) -> UpstreamDiagnosis.Tokens? {
    guard let team = draft.musickit?.teamID, let settings = draft.token else {
      diagnosis.skip(.token, dependsOn: .settings)
      if keys.next != nil { diagnosis.skip(.nextKey, dependsOn: .settings) }
      return nil
    }
    do {
      let active = try Self.holdingSignals { try Self.token(of: keys.active, team, settings) }
      let next = try keys.next.map { try Self.token(of: $0, team, settings) }
      diagnosis.pass(.token, "A new token passes every check of inspect, and the key signed it.")
      return (team, active, next)
    } catch {
      diagnosis.fail(.token, "\(error)")
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
    return (key.keyID, token.text)
  }

  /// Checks that a client has the origin, so that browsers let its pages read responses (the Fetch standard, §3.3).
  private func checkOrigin(_ draft: SettingsDraft, _ diagnosis: Diagnosis) {
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
          fix: "Add it to the origins of a client in access.clients.")
      }
      let shown = clients.prefix(8).map(\.id).joined(separator: ", ")
      let rest = clients.count > 8 ? " and \(clients.count - 8) more" : ""
      diagnosis.pass(.origin, "Pages of \(origin) may read responses, for the clients: \(shown)\(rest).")
    } catch {
      diagnosis.fail(.origin, "\(error)", fix: "Write it as the browser sends it, as in https://app.example.com.")
    }
  }
}

/// A secret text that a command reads from a file, from standard input, or from its arguments.
struct CommandSecret {
  let name: String
  let limit: Int
  let content: String

  /// Reads a file, or the descriptor of standard input for `-`. Throws a sentence that does not quote the text.
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
