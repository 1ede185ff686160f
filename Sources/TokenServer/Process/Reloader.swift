import DeveloperToken
import Dispatch
import HTTPServer
import Logging

/// Takes new settings, keys and certificates into use without a restart: on SIGHUP, and when one of their files changes.
/// If anything in the new ones is wrong, all of the old stays.
final class Reloader: @unchecked Sendable {
  // Sendable: everything mutable is touched only on `queue`, which is serial.

  /// Reads everything anew. Throws sentences for the operator.
  typealias Load = @Sendable () throws -> Generation.Source

  private let queue = DispatchQueue(label: "reload")
  private let load: Load
  private let health: Health
  private let servers: (public: Server, admin: Server?)
  private let logger: Logger
  private var current: Generation
  private var fingerprints: FileFingerprints
  private var timer: (any DispatchSourceTimer)?

  /// How often files are looked at. Rotated secrets are valid side by side for longer than that.
  private static let interval = DispatchTimeInterval.seconds(5)

  init(
    _ current: Generation, servers: (public: Server, admin: Server?), health: Health, logger: Logger,
    load: @escaping Load
  ) {
    self.current = current
    self.servers = servers
    self.health = health
    self.logger = logger
    self.load = load
    fingerprints = FileFingerprints(current.settings.files)
  }

  /// Begins to watch the files.
  func watch() {
    queue.sync {
      let timer = DispatchSource.makeTimerSource(queue: queue)
      timer.schedule(deadline: .now() + Self.interval, repeating: Self.interval, leeway: .seconds(1))
      timer.setEventHandler { [unowned self] in
        if FileFingerprints(self.current.settings.files) != self.fingerprints { self.reload(because: "a file changed") }
      }
      timer.resume()
      self.timer = timer
    }
  }

  /// Reloads because somebody says so.
  func reloadOnSignal() {
    queue.async { self.reload(because: "SIGHUP") }
  }

  /// Ends the watch; returns when no reload is under way.
  func stop() {
    queue.sync {
      timer?.cancel()
      timer = nil
    }
  }

  private func reload(because cause: String) {
    // Taken first: a change while we read is seen the next time.
    fingerprints = FileFingerprints(current.settings.files)
    do {
      let source = try load()
      let next = try Generation(source, health: health, replacing: current)
      for path in source.settings.pathsThatNeedRestart(comparedWith: current.settings) {
        logger.warning("A changed setting takes effect at the next start only.", metadata: ["setting": "\(path)"])
      }
      for notice in next.notices { logger.warning("\(notice)") }
      servers.public.replace(router: next.publicRouter, tls: next.tls)
      servers.admin?.replace(router: next.adminRouter, tls: nil)
      current = next
      fingerprints = FileFingerprints(next.settings.files)
      logger.notice(
        "Settings, key and certificate were read anew.",
        metadata: ["cause": "\(cause)", "key.id": "\(next.minter.key.keyID)"])
    } catch {
      for sentence in (error as? InvalidSettings)?.faults.lines ?? ["\(error)"] {
        logger.error("The new settings cannot be used; the old ones stay.", metadata: ["reason": "\(sentence)"])
      }
    }
  }
}
