package import Cryptography
package import DeveloperToken
import EventLoop
import Glibc
package import ServerSettings

extension Application {
  /// Serves with these settings, which it reloads, until a signal ends the process.
  ///
  /// - Parameters:
  ///   - findings: The failures to protect the key's memory.
  ///   - announce: Called with the addresses and the settings of the listeners, once they accept connections.
  /// - Throws: `InvalidSettings`, or a sentence for the operator.
  package static func serve(
    _ input: SettingsInput, findings: [Finding], announce: (Addresses, Settings.Server) -> Void
  ) throws {
    // While there is one thread, because both change the environment.
    let manager = try ServiceNotifier.take()
    let sockets = try PassedListeners(PassedSocket.take())
    var input = input
    input.host.sockets = sockets
    let load: Reloader.Load = { [input] () throws(InvalidSettings) in try Settings.load(input) }
    // The fingerprints come before the contents, so a change in between causes another reload.
    var files = FileFingerprints([input.configurationFile].compactMap { $0 })
    // Settings may come from a pipe, which can take any time.
    ProcessSignals.endAtOnce()
    let loaded = try load()
    ProcessSignals.hold()
    files.watch(loaded.paths)
    var source = try RuntimeSnapshot.Source(loaded)
    source.warnings += findings.map(\.description)
    let confinement = confinement(of: loaded, keepsAbstractSockets: manager?.isAbstract == true)
    let reload: Reloader.Load = { [input] () throws(InvalidSettings) in
      try checkReloads(of: input.configurationFile)
      // First, because a settings file that cannot be read has no settings.
      let file = input.configurationFile.map { [(setting: "--config", path: $0)] } ?? []
      try confinement.check(file)
      let loaded = try load()
      try confinement.check(loaded.files.paths)
      return loaded
    }
    try Application(source).run(reload: (reload, files), manager: manager, confinement: confinement) {
      announce($0, loaded.settings.server)
    }
  }

  /// Serves with an emulator in Apple's place, for every caller, until a signal ends the process.
  ///
  /// - Parameters:
  ///   - findings: The failures to protect the key's memory.
  ///   - addressHint: The sentence that names the source of the public listener's address in errors.
  ///   - announce: Called with the addresses, once the listeners accept connections.
  /// - Throws: A sentence for the operator.
  package static func serveDemo(
    _ settings: Settings, key: SigningKey, findings: [Finding], addressHint: String, announce: (Addresses) -> Void
  ) throws {
    var source = try RuntimeSnapshot.Source(
      settings: settings, key: key, warnings: findings.map(\.description), proxies: ProxyEnvironment([:]))
    source.isDemo = true
    try Application(source, addressHint: addressHint).run(reload: nil, announce: announce)
  }

  /// Throws if the configuration has come from a pipe without a name, as in `--config <(…)`, which ends with the start.
  /// A FIFO in a folder may have another writer by now.
  private static func checkReloads(of configurationFile: String?) throws(InvalidSettings) {
    var status = stat()
    guard let path = configurationFile, unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFIFO else {
      return
    }
    if let name = unsafe realpath(path, nil) { return unsafe free(name) }
    let error = SettingsError(
      "--config", problem: "the file \(quotedPath(path)) is a pipe, which the server has read to its end at the start",
      remedy: "a reload needs a file: write the settings into one, and restart the server with its path")
    throw InvalidSettings(errors: [error], warnings: [])
  }

  /// Gives up what the server does not need, while there is one thread.
  private static func confinement(of loaded: Settings.Loaded, keepsAbstractSockets: Bool) -> FileConfinement {
    let settings = loaded.settings
    guard settings.server.landlock else { return FileConfinement(outcome: .notEnforced("server.landlock is false")) }
    var socket: String?
    if case .unix(let path) = settings.server.address { socket = path }
    let grants = FileConfinement.Grants(reading: loaded.paths, auditFile: settings.audit.file, unixSocket: socket)
    return .begin(grants, keepsAbstractSockets: keepsAbstractSockets)
  }
}
