import DeveloperToken
import Glibc
import HTTPServer
import Logging
import Memory
import Telemetry

@testable import ServerSettings
@testable import TokenServer

/// Makes a runtime snapshot from settings, without listeners and loops.
enum GenerationFixture {
  /// - Parameter environment: Settings in addition to the minimal ones.
  static func make(_ environment: [String: String] = [:], unsafeAllow: Bool = false) throws -> RuntimeSnapshot {
    let loaded = try SettingsFixture().load(environment, unsafeAllow: unsafeAllow)
    let key = try SigningKey.generate(keyID: try KeyID("ABC1234567"))
    return try make(
      RuntimeSnapshot.Source(settings: loaded.settings, key: key, warnings: [], proxies: loaded.draft.proxies))
  }

  /// Makes a snapshot from a source. With a previous snapshot this is what a reload does.
  static func make(
    _ source: RuntimeSnapshot.Source, replacing previous: RuntimeSnapshot? = nil
  ) throws -> RuntimeSnapshot {
    let settings = source.settings
    let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    let sink = LogSink(descriptor: STDERR_FILENO, format: .json)
    let access = try AccessService(settings.audit, loops: [], sink: sink, logger: logger)
    let memory = MemoryBudget(limit: settings.server.limits.memory)
    let catalog =
      previous != nil
      ? nil
      : try settings.catalog.map {
        try CatalogService(
          $0, authorities: source.upstreamAuthorities, connectionsPerLoop: 1,
          burst: settings.server.limits.burst, loops: [], memory: memory, logger: logger)
      }
    let services = Services(access: access, catalog: catalog, memory: memory, sink: sink)
    return try RuntimeSnapshot(source, of: services, replacing: previous)
  }
}
