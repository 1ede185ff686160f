import ArgumentParser
import Commands
import Cryptography
import DeveloperToken
import Glibc
// For `environ`, a C variable that Swift reports as a data race. The program reads it while there is one thread.
@unsafe @preconcurrency import Glibc
import ServerSettings

struct Serve: ParsableCommand {
  static let configuration = CommandConfiguration(commandName: "serve", abstract: "Run the server (the default).")

  @OptionGroup var settings: SettingsOptions

  func run() throws {
    try ServeCommand(settings.input()).run(findings: ProcessSetup.findings) {
      CommandResult.print($0, to: STDOUT_FILENO)
    }.finish()
  }
}

struct Demo: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "demo",
    abstract: "Run a server with a throwaway key and an emulated catalog, for callers without credentials.")

  @Option(help: "The port to listen on; 0 picks a free one.")
  var port: UInt16 = 8080

  @Option(
    help: ArgumentHelp(
      "The address to listen on; * is every address, for containers. Default: loopback.", valueName: "address"))
  var host: String?

  @Option(help: ArgumentHelp("A folder of JSON files with resources for the emulator.", valueName: "folder"))
  var data: String?

  func run() throws {
    try DemoCommand(port: port, address: host, dataFolder: data, host: .current()).run(findings: ProcessSetup.findings)
    {
      CommandResult.print($0, to: STDOUT_FILENO)
    }.finish()
  }
}

struct HealthCheck: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "healthcheck",
    abstract: "Exit 0 if a URL responds with 200. Default: /healthz of the admin listener in the settings of serve.")

  @Option(help: ArgumentHelp("The URL to check, http:// only.", valueName: "url"))
  var url: String?

  @OptionGroup var settings: SettingsOptions

  func run() throws {
    try HealthCheckCommand(url: url, input: settings.input()).run().finish()
  }
}

struct CheckConfig: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "check-config",
    abstract: "Check everything that serve checks, report all errors, and start nothing.")

  @OptionGroup var settings: SettingsOptions

  func run() throws {
    try CheckConfigCommand(settings.input()).run().finish()
  }
}

struct Doctor: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "doctor",
    abstract: "Find out why tokens fail, or why a running server refuses a caller.",
    discussion: """
      Without --url, it checks the settings, the key, what the server depends on (ports, certificates, identity \
      providers, store, collector of spans), and then each step to Apple Music in this order. With --url, it \
      asks the admin listener of a running server which client a credential belongs to, whether the server grants the \
      request, and whether browsers let pages of the origin read the response.

      Each check has a line with ✓ if it passes, ✗ if it fails, or – if it is skipped, and the fix. A check that \
      depends on a failed one is skipped. The exit status is 0 if no check fails, 1 if one fails, 78 if serve could not \
      start with the settings or a key, and 64 for wrong usage, without any report.
      """)

  @Option(
    help: ArgumentHelp("The address of a running server's admin listener, http:// only.", valueName: "url"))
  var url: String?

  @Option(
    help: ArgumentHelp(
      "With --url: the file of a caller's API key or JWT; - is standard input.", valueName: "file"))
  var credentialFile: String?

  @Option(help: ArgumentHelp("With --url: the path that the caller requests. Default: /token.", valueName: "path"))
  var path: String?

  @Option(help: ArgumentHelp("The web origin whose pages use the server.", valueName: "origin"))
  var origin: String?

  @Option(help: ArgumentHelp("The file of a music user token to check; - is standard input.", valueName: "file"))
  var userTokenFile: String?

  @Option(
    help: ArgumentHelp("The music user token itself. Other users of the machine can see it.", valueName: "token"))
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

  func run() throws {
    if let url {
      let command = ServerDoctorCommand(
        url: url, credentialFile: credentialFile, origin: origin, path: path, isJSON: json)
      return try command.run(input: STDIN_FILENO).finish()
    }
    let token = userToken.map { DoctorCommand.UserToken.text($0) } ?? userTokenFile.map { .file($0) }
    let command = DoctorCommand(
      settings.input(), origin: origin, userToken: token, isJSON: json)
    try command.run(input: STDIN_FILENO).finish()
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
    help: ArgumentHelp(
      "Any setting by its path, such as token.ttl=6h; may be repeated.", valueName: "path=value"))
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

  /// Whether no flag is given.
  var isEmpty: Bool {
    [config, host, port, unixSocket].allSatisfy { $0 == nil } && set.isEmpty && !unsafeAllowAnonymous
      && !unsafePlainUpstream
  }

  /// Returns the sources of the settings. This removes the key from the environment, so call it while there is one
  /// thread.
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
      return SettingsInput.Flag(name: "--set", path: String(parts[0]), value: String(parts[1]))
    } + named.compactMap { name, path, value in value.map { SettingsInput.Flag(name: name, path: path, value: $0) } }
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
