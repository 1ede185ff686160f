import ArgumentParser
import Cryptography
import Glibc
// For `environ`, a C variable that Swift reports as a data race. The program reads it while there is one thread.
@unsafe @preconcurrency import Glibc
import ServerSettings

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
