import CatalogProxy
import DeveloperToken
import Dispatch
import Glibc
import HTTPServer
import Locks
import Logging
import ServerSettings
import TLS
import UpstreamAdmission

/// Replaces settings, keys and certificates on SIGHUP, and when their files change. If any is invalid, all old ones stay.
final class Reloader: @unchecked Sendable {
  // Sendable by confinement: all mutable state is accessed only on `queue`, which is serial.

  /// Reads the settings again, without the files that they name. Throws all errors in them.
  typealias Load = @Sendable (ReadingTime) throws(InvalidSettings) -> Settings.Loaded

  let queue = DispatchQueue(label: "reload")
  private let load: Load
  private let servers: (public: Server, admin: Server?)
  let logger: Logger
  private let manager: ServiceNotifier?
  private(set) var current: RuntimeSnapshot
  var services: Services { current.services }
  var rotation: KeyRotation?
  /// The number of rotations so far, because the result of a proof may come after its rotation.
  var rotationSerial = 0
  /// Why the last proof of the next key was not accepted; nil if it was, or if there was none.
  var proofFinding: String?
  /// The minter of the key that Apple Music was asked about last, and when.
  weak var judgedMinter: TokenMinter?
  var judgedAt = Duration.zero
  /// The time until which callers may hold tokens of each key that has signed, in seconds since 1970. It never gets
  /// earlier: a shorter lifetime in new settings does not shorten the tokens that callers have.
  var tokenExpiries: [KeyID: Int] = [:]
  /// The files of the snapshot in use and of the last readable settings, because a missing key may appear later.
  private var files: FileFingerprints
  private var timer: (any DispatchSourceTimer)?
  /// Whether ``stop()`` waits for the reload in progress.
  private let isStopping = Locked(false)
  private var goesOn: Bool { !ProcessSignals.isEndPending && !isStopping.withLock { $0 } }

  /// The time for all files of a reload: 5 s. Only a pipe takes longer, and the server acts on no other signal meanwhile.
  static let readingTime = Duration.seconds(5)
  /// The interval between checks of the files. Rotated secrets overlap for longer than that.
  private static let interval = DispatchTimeInterval.seconds(5)

  /// - Parameter files: The fingerprints of the files of `current` from before they were read.
  init(
    _ current: RuntimeSnapshot, files: FileFingerprints, servers: (public: Server, admin: Server?), logger: Logger,
    manager: ServiceNotifier?, load: @escaping Load
  ) {
    (self.current, self.servers, self.files) = (current, servers, files)
    (self.logger, self.manager, self.load) = (logger, manager, load)
  }

  func watch() {
    queue.sync {
      adoptKeys(insteadOf: nil)
      let timer = DispatchSource.makeTimerSource(queue: queue)
      timer.schedule(deadline: .now() + Self.interval, repeating: Self.interval, leeway: .seconds(1))
      timer.setEventHandler { [unowned self] in
        if files.haveChanged { reload(because: "a file changed") }
        rotateKeys()
        judgeKey()
        if let signer = current.minter.key.remote {
          services.catalog?.proxy.renewToken()
          signer.retry()
          if signer.takeRecovery() { logger.notice("\(signer.place) signs again.") }
        }
      }
      timer.resume()
      self.timer = timer
    }
  }

  /// Reloads because of a signal, on the calling thread, so that the process needs no other thread.
  func reloadOnSignal() { queue.sync { reload(because: "SIGHUP") } }

  /// Ends the watch, and returns when no reload is in progress. One that waits for a signer or a pipe gives up.
  func stop() {
    isStopping.withLock { $0 = true }
    queue.sync {
      timer?.cancel()
      timer = nil
      rotation = nil
    }
  }

  func install(_ next: RuntimeSnapshot) {
    // First, because it takes long, and callers would meet the gateway of one generation and the gate of another meanwhile.
    let routers = next.routers()
    services.catalog?.use(next, instead: current)
    if let secret = next.groupSecret { services.group?.use(secret) }
    // Files for a collector or a store that a restart will use are not for the present one.
    let (new, kept) = (next.source.settings, next.settings)
    if new.spanExport?.endpoint == kept.spanExport?.endpoint {
      services.spans?.authorities?.replace(by: next.source.collectorAuthorities)
    }
    if let store = next.source.store, new.shared?.address == kept.shared?.address {
      services.group?.use(store, user: new.shared?.user)
    }
    let transportSecurity = next.settings.server.tls?.strictTransportSecurity
    servers.public.replace(router: routers.public, tls: next.tls, strictTransportSecurity: transportSecurity)
    servers.admin?.replace(router: routers.admin, tls: nil)
    services.access.use(next)
    let (key, expiry) = (current.minter.key.keyID, Glibc.time(nil) + current.minter.policy.maxTTL)
    tokenExpiries[key] = max(tokenExpiries[key] ?? 0, expiry)
    current = next
  }

  /// Lets a new signer sign once. The present one may be down without harm to a reload.
  private func probe(_ key: SigningKey) throws(RemoteSignerError) {
    if !key.signsLike(current.minter.key) { try key.remote?.probe { self.goesOn } }
  }

  /// Reads the settings again. Throws all errors in them, and those of files that the process could read only at a start.
  static func load(
    _ input: SettingsInput, within confinement: FileConfinement
  ) throws(InvalidSettings) -> Settings.Loaded {
    if let path = input.configurationFile {
      try checkPipe(path)
      // First, because a settings file that cannot be read has no settings.
      try confinement.check([(setting: "--config", path: path)])
    }
    let loaded = try Settings.load(input)
    try confinement.check(loaded.draft.files.paths)
    try confinement.check(loaded.settings)
    return loaded
  }

  /// Throws if the configuration was a pipe without a name, as `--config <(…)`. A FIFO may have another writer now.
  private static func checkPipe(_ path: String) throws(InvalidSettings) {
    var status = stat()
    guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFIFO else { return }
    if let name = unsafe realpath(path, nil) { return unsafe free(name) }
    let error = SettingsError(
      "--config", problem: "the file \(quotedPath(path)) is a pipe, which the server has read to its end at the start",
      remedy: "a reload needs a file: write the settings into one, and restart the server with its path")
    throw InvalidSettings(errors: [error], warnings: [])
  }

  private func reload(because cause: String) {
    manager?.reloading()
    // The fingerprints come before the contents: the next check then finds a change during the read.
    files.look()
    do {
      let loaded = try load(ReadingTime(Self.readingTime) { [unowned self] in goesOn })
      files.keepOnly(current.source.paths + loaded.paths)
      files.watch(loaded.paths)
      let source = try RuntimeSnapshot.Source(loaded, replacing: current)
      try probe(source.key)
      let previous = current
      let next = try RuntimeSnapshot(
        source, of: services, replacing: current,
        signsWithNextKey: current.signsWithNextKey && current.source.hasSameKeys(as: source)
          && source.settings.musickit.keys.next?.notBefore ?? 0 <= Glibc.time(nil))
      let pending = loaded.settings.needingRestart(loaded.draft.written, since: current.settings, current.written)
      for path in pending {
        logger.warning("A changed setting takes effect only after a restart.", metadata: ["setting": "\(path)"])
      }
      for notice in next.notices { logger.warning("\(notice)") }
      install(next)
      files.keepOnly(source.paths)
      services.metrics.reloads.withLock { $0.succeed(needingRestart: pending) }
      logger.notice("Configuration reloaded", metadata: next.minter.key.metadata.merging(["cause": "\(cause)"]) { $1 })
      adoptKeys(insteadOf: previous)
      manager?.ready("Configuration reloaded")
    } catch {
      guard goesOn else {
        return logger.notice("The server ends, so it has not finished the reload, and the old settings stay in use.")
      }
      let sentences = (error as? InvalidSettings)?.errors.lines ?? ["\(error)"]
      services.metrics.reloads.withLock { $0.refuse(sentences.first ?? "") }
      for sentence in sentences {
        logger.error("The new settings are invalid, so the old ones stay in use.", metadata: ["reason": "\(sentence)"])
      }
      manager?.ready("The new settings are invalid, so the old ones stay in use; the log has the reason")
    }
  }
}

extension Settings.Loaded {
  /// The paths of the files that contain the settings, and that they name.
  var paths: [String] { [settings.configurationFile].compactMap { $0 } + draft.files.paths.map(\.path) }
}

/// The state of files according to stat(2), which shows a change without reading them.
struct FileFingerprints {
  /// Device, inode, size, and the times of the last change of content and of inode, which owner and mode set, too.
  private typealias Fingerprint = [Int]

  private var files: [String: Fingerprint?] = [:]

  /// Records the present state of the files. A missing file also has a state.
  init(_ paths: [String]) { watch(paths) }

  /// Records the state of further files. A watched file keeps its known state, so that a change since is still found.
  mutating func watch(_ paths: [String]) {
    for path in paths where files[path] == nil { files[path] = .some(Self.fingerprint(path)) }
  }

  mutating func keepOnly(_ paths: [String]) { files = files.filter { paths.contains($0.key) } }
  mutating func look() { for path in files.keys { files[path] = .some(Self.fingerprint(path)) } }

  /// Whether the state of any file differs from the recorded one.
  var haveChanged: Bool { files.contains { path, known in Self.fingerprint(path) != known } }

  /// Returns nil for a missing file, and for a pipe, which can be read only once, so a later write causes no reload. Follows
  /// symbolic links, because Kubernetes and Docker replace a secret by a new link.
  private static func fingerprint(_ path: String) -> Fingerprint? {
    var status = stat()
    guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT != S_IFIFO else { return nil }
    return [
      Int(truncatingIfNeeded: status.st_dev), Int(truncatingIfNeeded: status.st_ino), Int(status.st_size),
      status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec,
    ]
  }
}
