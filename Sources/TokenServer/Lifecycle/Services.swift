import EventLoop
import HTTPMessages
import HTTPServer
import Logging
import Memory
import ServerSettings
import Telemetry

/// The parts of the server that last as long as the process, whatever generation of settings uses them.
struct Services: Sendable {
  let access: AccessService
  let catalog: CatalogService?
  let memory: MemoryBudget
  let sink: LogSink
  /// The replicas that share a store; nil without `shared.url`, as is what they share.
  var group: ReplicaGroup?
  var rates: GroupRates?
  /// Apple's quota and its responses; nil without the catalog, too.
  var quota: GroupQuota?
  var sharedCache: RedisSharedCache?
  var spans: SpanExporter?
  var health = Health()
  let metrics = ServerMetrics()

  /// What settles with the other replicas.
  var participants: [any GroupParticipant] {
    let all: [(any GroupParticipant)?] = [rates, quota, sharedCache]
    return all.compactMap { $0 }
  }
}

extension Services {
  /// - Parameter loops: The loops of the public listener.
  init(_ source: RuntimeSnapshot.Source, loops: [IOLoop], memory: MemoryBudget, sink: LogSink, logger: Logger) throws {
    (self.memory, self.sink) = (memory, sink)
    let settings = source.settings
    let spans = try Self.exporter(source, loops, logger)
    var sharedCache: RedisSharedCache?
    let secret = try settings.shared.map { _ in try GroupSecret(source.files.key, settings) }
    if let shared = settings.shared, let secret, let files = source.files.store {
      let group = ReplicaGroup(shared, files, secret.facts, loops: loops, memory: memory, logger: logger)
      self.group = group
      rates = GroupRates(group, secret)
      if settings.catalog != nil { sharedCache = RedisSharedCache(group, secret) }
    }
    let catalog = try settings.catalog.map {
      try CatalogService(
        $0, authorities: source.files.upstreamAuthorities,
        // One of them is to the store.
        connectionsPerLoop: max(1, settings.server.descriptors.upstreamPerLoop - (settings.shared == nil ? 0 : 1)),
        burst: settings.server.limits.burst, loops: loops, memory: memory, logger: logger, spans: spans,
        shared: { sharedCache?.cache(on: $0) })
    }
    if let group, let secret, let catalog { quota = GroupQuota(group, secret, catalog.proxy) }
    (self.catalog, self.sharedCache, self.spans) = (catalog, sharedCache, spans)
    health = Health(loops)
    access = try AccessService(
      settings.audit, rates: rates, keepsRecent: settings.admin?.page ?? false, loops: loops, sink: sink,
      logger: logger)
  }

  private static func exporter(
    _ source: RuntimeSnapshot.Source, _ loops: [IOLoop], _ logger: Logger
  ) throws -> SpanExporter? {
    guard let settings = source.settings.spanExport, let loop = loops.first else { return nil }
    return try SpanExporter(
      settings, authorities: source.files.collectorAuthorities,
      proxy: source.proxies.proxy(for: settings.endpoint.origin), loop: loop, logger: logger)
  }
}
