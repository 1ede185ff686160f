import ArgumentParser
import Cryptography
import DeveloperToken
import EventLoop
import Glibc
// For `environ`, a C variable that Swift reports as a data race. The program reads it while there is one thread.
@unsafe @preconcurrency import Glibc
import ServerSettings
import TokenServer

struct ServeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(commandName: "serve", abstract: "Run the server (the default).")

  @OptionGroup var settings: SettingsOptions

  func run() throws { try Self.result(settings.input(), findings: SecureMemory.protect()).finish() }

  /// Serves until a signal ends the process. The `findings` are the failures to protect the key's memory.
  static func result(_ input: SettingsInput, findings: [Finding]) -> CommandResult {
    do {
      let hasAllRecords = try Application.serve(input, findings: findings) { addresses, server in
        let note = "The port is that of the variable PORT, because server.port is not set."
        CommandResult.print(addresses.lines + (server.isPortOfPlatform ? [note] : []), to: STDOUT_FILENO)
      }
      return CommandResult(hasAllRecords ? .good : .failed)
    } catch {
      var result = CommandResult(error, otherwise: .configuration)
      if let error = error as? InvalidSettings { result.diagnostics += hint(about: error.errors, input) }
      return result
    }
  }

  /// What to do first, if nothing is set at all.
  private static func hint(about errors: [SettingsError], _ input: SettingsInput) -> [String] {
    // A missing setting has no source.
    guard input.configurationFile == nil, errors.count >= 3, errors.allSatisfy({ $0.source == nil }) else { return [] }
    return [
      "To try the server without a key and settings: musickit-token-server demo. To name a configuration file: --config "
        + "FILE, or MUSICKIT_CONFIG."
    ]
  }
}

struct CheckConfigCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "check-config",
    abstract: "Check what serve reads, report all errors, and start nothing. It does not ask a signer: doctor does.")

  @OptionGroup var settings: SettingsOptions

  func run() throws { try Self.result(settings.input()).finish() }

  static func result(_ input: SettingsInput) -> CommandResult {
    let draft = SettingsDraft(input)
    let files = draft.files.load()
    let errors = (draft.errors + files.errors).lines
    let warnings = (draft.warnings + files.warnings).map { "Warning: \($0)" }
    guard errors.isEmpty, let summary = draft.summary, let loaded = try? draft.complete() else {
      return CommandResult(.configuration, diagnostics: errors + warnings)
    }
    let signer = files.keys?.active.remote == nil ? [] : ["The signer has not been asked: doctor lets it sign."]
    return CommandResult(
      .good, output: ["The configuration is valid: \(summary)"] + loaded.settings.grants + signer,
      diagnostics: warnings)
  }
}

extension SettingsDraft {
  /// The team, and the addresses of a server with these settings; nil if one of them is invalid.
  var summary: String? {
    guard let musickit, let server else { return nil }
    let scheme = server.tls == nil ? "http" : "https"
    let address =
      switch server.address {
      case .tcp(let host, let port): "\(scheme) on \(host) port \(port)\(server.isPortOfPlatform ? " (PORT)" : "")"
      case .unix(let path): "\(scheme) on \(path)"
      case .passed(let sockets): "\(scheme) on \(Endpoint.passed(sockets))"
      }
    let operators = admin.map { "admin on \($0.host) port \($0.port)" } ?? "no admin listener"
    return "team \(musickit.teamID), \(address), \(operators)."
  }
}

/// The flags of every command that reads the server's settings.
struct SettingsOptions: ParsableArguments {
  @Option(help: ArgumentHelp("The configuration file, JSON5. Default: $MUSICKIT_CONFIG.", valueName: "file"))
  var config: String?
  @Option(help: ArgumentHelp("The address to listen on: an IP address, localhost, or *.", valueName: "address"))
  var host: String?
  @Option(help: ArgumentHelp("The port to listen on; 0 picks a free one.", valueName: "port"))
  var port: String?
  @Option(help: ArgumentHelp("The Unix-domain socket to listen on instead.", valueName: "path"))
  var unixSocket: String?
  @Option(
    help: ArgumentHelp("Any setting by its path, such as token.ttl=6h; may be repeated.", valueName: "path=value"))
  var set: [String] = []
  @Flag(help: "Serve all callers, for any web origin. Every caller who reaches the server then uses your quota.")
  var unsafeAllowAnonymous = false
  @Flag(help: "Accept an http:// catalog.upstream on another machine. Developer tokens then travel in clear.")
  var unsafePlainUpstream = false

  func validate() throws {
    for setting in set where !setting.contains("=") {
      throw ValidationError("--set takes a setting's path and its value, as in token.ttl=6h.")
    }
  }

  var isEmpty: Bool {
    [config, host, port, unixSocket].allSatisfy { $0 == nil } && set.isEmpty && !unsafeAllowAnonymous
      && !unsafePlainUpstream
  }

  /// Removes the key from the environment, so call it while there is one thread.
  func input() -> SettingsInput {
    let key = SecretBytes.take(environmentVariable: "MUSICKIT_KEY")
    return SettingsInput(
      file: config, environment: Self.environment(), environmentKey: key, flags: flags,
      allowsAnonymous: unsafeAllowAnonymous, allowsPlainUpstream: unsafePlainUpstream, host: .current())
  }

  private var flags: [SettingsInput.Flag] {
    let named = [
      ("--host", "server.host", host), ("--port", "server.port", port),
      ("--unix-socket", "server.unixSocket", unixSocket),
    ]
    return set.map { setting in
      let parts = setting.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      return ("--set", String(parts[0]), String(parts[1]))
    } + named.compactMap { name, path, value in value.map { (name, path, $0) } }
  }

  /// Returns the environment of the process. If a name occurs twice, the first entry counts, as in getenv(3).
  private static func environment() -> [String: String] {
    var variables: [String: String] = [:]
    var next = unsafe environ
    while let entry = unsafe next.pointee {
      let text = unsafe String(cString: entry)
      if let equals = text.firstIndex(of: "=") {
        let name = String(text[..<equals])
        variables[name] = variables[name] ?? String(text[text.index(after: equals)...])
      }
      unsafe next += 1
    }
    return variables
  }
}
