import DeveloperToken
import Dispatch
import HTTPServer
import Logging

/// Takes new settings, keys and certificates into use without a restart: on SIGHUP, and when one of their files changes.
/// If anything in the new ones is wrong, all of the old stays.
final class Reloader: @unchecked Sendable {
  // Sendable: everything mutable is touched only on `queue`, which is serial.

  /// Reads the settings again, without the files that they name. Throws all errors in them.
  typealias Load = @Sendable () throws(InvalidSettings) -> Settings.Loaded

  private let queue = DispatchQueue(label: "reload")
  private let load: Load
  private let health: Health
  private let metrics: ServerMetrics
  private let servers: (public: Server, admin: Server?)
  private let catalog: CatalogService?
  private let access: AccessService
  private let logger: Logger
  private var current: RuntimeSnapshot
  /// Of what is in use, and of what the last settings that could be read name: a key that was missing may come.
  private var files: FileFingerprints
  private var timer: (any DispatchSourceTimer)?

  /// How often files are looked at. Rotated secrets are valid side by side for longer than that.
  private static let interval = DispatchTimeInterval.seconds(5)

  /// - Parameter files: How the files of `current` looked before they were read.
  init(
    _ current: RuntimeSnapshot, files: FileFingerprints, servers: (public: Server, admin: Server?),
    catalog: CatalogService?, access: AccessService, health: Health, metrics: ServerMetrics, logger: Logger,
    load: @escaping Load
  ) {
    self.current = current
    self.servers = servers
    self.catalog = catalog
    self.access = access
    self.health = health
    self.metrics = metrics
    self.logger = logger
    self.load = load
    self.files = files
  }

  /// Begins to watch the files.
  func watch() {
    queue.sync {
      let timer = DispatchSource.makeTimerSource(queue: queue)
      timer.schedule(deadline: .now() + Self.interval, repeating: Self.interval, leeway: .seconds(1))
      timer.setEventHandler { [unowned self] in
        if self.files.haveChanged { self.reload(because: "a file changed") }
      }
      timer.resume()
      self.timer = timer
    }
  }

  /// Reloads because a signal says so. On the calling thread, so that no other has to be made for it.
  func reloadOnSignal() {
    queue.sync { reload(because: "SIGHUP") }
  }

  /// Ends the watch; returns when no reload is under way.
  func stop() {
    queue.sync {
      timer?.cancel()
      timer = nil
    }
  }

  private func reload(because cause: String) {
    // Each file is looked at before it is read: a change while we read is seen the next time.
    files.look()
    do {
      let loaded = try load()
      let named = loaded.settings.files
      files.keepOnly(current.settings.files + named)
      // A file that waits for a restart is watched only as long as it keeps the rest from being taken.
      files.watch(named + [loaded.settings.catalog?.caFile].compactMap { $0 })
      let source = try RuntimeSnapshot.Source(loaded, replacing: current.settings)
      let next = try RuntimeSnapshot(
        source, access: access, health: health, metrics: metrics, catalog: catalog, replacing: current)
      for path in source.settings.pathsThatNeedRestart(comparedWith: current.settings) {
        logger.warning("A changed setting takes effect at the next start only.", metadata: ["setting": "\(path)"])
      }
      for notice in next.notices { logger.warning("\(notice)") }
      catalog?.use(next, instead: current)
      servers.public.replace(
        router: next.publicRouter, tls: next.tls,
        strictTransportSecurity: next.settings.server.tls?.strictTransportSecurity)
      servers.admin?.replace(router: next.adminRouter, tls: nil)
      access.keySets.use(next.keys)
      current = next
      files.keepOnly(next.settings.files + named)
      metrics.reloads.count(isRefused: false)
      logger.notice(
        "Configuration reloaded",
        metadata: ["cause": "\(cause)", "key.id": "\(next.minter.key.keyID)"])
    } catch {
      metrics.reloads.count(isRefused: true)
      for sentence in (error as? InvalidSettings)?.faults.lines ?? ["\(error)"] {
        logger.error("The new settings cannot be used; the old ones stay.", metadata: ["reason": "\(sentence)"])
      }
    }
  }
}
