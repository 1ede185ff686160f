import Access
package import CatalogProxy
package import DeveloperToken
import Dispatch
import EventLoop
import Glibc
import HTTPCache
package import HTTPClient
import HTTPMessages
import HTTPServer
import Locks
import Logging
import Memory
package import ServerSettings
package import TLS
import Tracing
import UpstreamAdmission

/// The catalog gateway, and an upstream client for each event loop, for the whole process.
final class CatalogService: Sendable {
  let proxy: CatalogGateway
  let tally = Locked(UpstreamTally())
  /// The trusted CAs for the upstream, which a reload replaces.
  let authorities: TLSClientContext
  let spans: SpanExporter?
  private let loops: [IOLoop]
  private let clients: [UpstreamClient]
  private let routes: [ObjectIdentifier: UpstreamRoute]

  /// Throws a sentence if the proxy to the upstream is unusable. `burst` is how long requests may wait for a place among
  /// those at the upstream before it counts as overload, and `shared` returns a loop's cache that the replicas share.
  init(
    _ settings: Settings.Catalog, authorities: TLSClientContext, connectionsPerLoop: Int, burst: Duration,
    loops: [IOLoop], memory: MemoryBudget, logger: Logger, spans: SpanExporter? = nil,
    shared: (IOLoop) -> (any SharedCache)? = { _ in nil }
  ) throws {
    (self.authorities, self.spans, self.loops) = (authorities, spans, loops)
    var proxy = CatalogGateway.Configuration(settings)
    proxy.memory = memory
    proxy.concurrency.burst = burst
    self.proxy = CatalogGateway(
      proxy,
      observer: CatalogEvents(logger: logger, tally: tally) { [upstream = settings.upstream] attempt in
        spans?.record(FinishedSpan(attempt, to: upstream))
      })
    var configuration = try UpstreamClient.Configuration(settings, authorities)
    configuration.limits.http1Connections = min(configuration.limits.http1Connections, connectionsPerLoop)
    configuration.limits.http2Connections = min(configuration.limits.http2Connections, connectionsPerLoop)
    configuration.memory = memory
    clients = loops.map { UpstreamClient(configuration, loop: $0) }
    let routes = clients.map { UpstreamRoute($0, executor: $0.loop, shared: shared($0.loop)) }
    self.routes = Dictionary(uniqueKeysWithValues: zip(loops.map { ObjectIdentifier($0) }, routes))
  }

  var counters: UpstreamCounters { clients.reduce(into: UpstreamCounters()) { $0.add($1.counters) } }

  /// Uses the key, the access policy and the trusted CAs of a generation from now on.
  func use(_ snapshot: RuntimeSnapshot, instead previous: RuntimeSnapshot? = nil) {
    proxy.setPublic(snapshot.gate.policy.catalogIsPublic)
    // The CAs of an upstream that a restart will use are not for the present one.
    if snapshot.source.settings.catalog?.upstream == snapshot.settings.catalog?.upstream {
      authorities.replace(by: snapshot.source.upstreamAuthorities)
    }
    guard snapshot.minter !== previous?.minter else { return }
    proxy.use(CatalogTokens(minter: snapshot.minter))
    // A key of the server signs when a request needs a token.
    if snapshot.minter.key.remote != nil { proxy.renewToken() }
  }

  /// Responds from the cache or from Apple. `receive` takes the reply, once, on the loop of the context.
  func start(
    _ call: CatalogCall, for payer: QuotaCaller, in context: RequestContext,
    then receive: @escaping @Sendable (consuming CatalogReply) -> Void
  ) -> (any CancellableWork)? {
    guard let route = routes[ObjectIdentifier(context.loop)] else {
      receive(.cancelled)
      return nil
    }
    // Apple reads content only in requests of users. It is no part of the cache key, so no other request has any.
    let hasContent = call.target.kind == .me && context.contentLength != 0
    return proxy.start(
      call, for: payer, content: hasContent ? context.content : nil,
      contentLength: hasContent ? context.contentLength : nil, waited: context.waited, by: route, then: receive)
  }

  /// Refreshes a stale response in the background, or compresses a long one.
  func refresh(_ call: CatalogCall, for payer: QuotaCaller, on loop: IOLoop) {
    guard let route = routes[ObjectIdentifier(loop)] else { return }
    loop.atEndOfTurn { [proxy] in proxy.refresh(call, for: payer, by: route) }
  }

  /// Asks Apple Music whether it accepts a token of `minter`. It returns at once, and passes the result to `report`.
  func test(_ minter: TokenMinter, report: @escaping @Sendable (TokenTest) -> Void) {
    // Any loop's client will do.
    guard let loop = loops.first, let route = routes[ObjectIdentifier(loop)] else {
      return report(TokenTest(.unknown, "The server has no event loop."))
    }
    let test = { @Sendable [proxy] in
      do {
        let token = try CatalogTokens(minter: minter).mint(now: Glibc.time(nil))
        Task(executorPreference: loop) { report(await proxy.test(token, by: route)) }
      } catch { report(TokenTest(.unknown, "\(error)")) }
    }
    // A remote signer may take seconds, for which a drain must not wait.
    if let queue = minter.key.remote?.queue { queue.async(execute: test) } else { test() }
  }

  func close() { for client in clients { client.close() } }
}

extension CatalogGateway.Configuration {
  fileprivate init(_ settings: Settings.Catalog) {
    self.init(upstream: settings.upstream.description, nextHop: String(settings.upstream.host))
    timeouts = UpstreamTimeouts(
      connect: settings.timeouts.connect, firstByte: settings.timeouts.firstByte, whole: settings.timeouts.whole)
    staleAfter = settings.timeouts.staleAfter
    cache.maxBytes = settings.cache.maxBytes
    cache.lifetime = Int(settings.cache.lifetime.components.seconds)
    cache.negativeLifetime = Int(settings.cache.notFoundLifetime.components.seconds)
    cache.staleWhileRevalidate = Int(settings.cache.staleWhileRevalidate.components.seconds)
    cache.staleIfError = Int(settings.cache.staleIfError.components.seconds)
    concurrency.maximum = settings.concurrency
  }
}

extension UpstreamClient.Configuration {
  /// Throws `UpstreamProxy.InvalidURL` if the proxy is unusable.
  package init(_ settings: Settings.Catalog, _ authorities: TLSClientContext) throws {
    let upstream = settings.upstream
    self.init(
      upstream.isSecure ? .https : .http, host: upstream.hostToResolve, port: upstream.port,
      tls: upstream.isSecure ? authorities : nil, proxy: try settings.proxy.map { try UpstreamProxy($0) })
    // Of the time in which a caller waits for a connection, an attempt leaves a fifth for the next one.
    limits.attempt = max(limits.attempt, settings.timeouts.connect * 4 / 5)
    // A way on which a connection takes long delays the answer to a ping, too.
    limits.pingAck = max(limits.pingAck, settings.timeouts.connect / 2)
  }
}

/// The developer tokens for the upstream. They have no origin and their own short lifetime, and no caller gets them.
package struct CatalogTokens: TokenSource {
  let minter: TokenMinter

  package init(minter: TokenMinter) { self.minter = minter }

  /// The lifetime in seconds: harmless with a clock off by minutes, and a token that leaks upstream is worth little.
  private static let lifetime = 3600

  package func mint(now: Int) throws -> ProxyToken {
    let lifetime = min(Self.lifetime, minter.policy.maxTTL)
    let token = try minter.freshToken(ttl: lifetime, now: now)
    let half = now + lifetime / 2
    // With a remote signer, the second half is time for one that is down.
    let refreshAt = minter.key.remote == nil ? half : now + lifetime * 11 / 12
    return ProxyToken(
      text: token.string, renewAt: half, refreshAt: refreshAt, expiresAt: token.expiresAt,
      keyID: "\(minter.key.keyID)")
  }
}

/// Counts the events of the upstream and logs them at a limited rate.
struct CatalogEvents: CatalogObserver {
  private let throttle: Throttle
  private let tally: Locked<UpstreamTally>
  private let record: @Sendable (UpstreamAttempt) -> Void

  init(
    logger: Logger, tally: Locked<UpstreamTally> = Locked(UpstreamTally()),
    record: @escaping @Sendable (UpstreamAttempt) -> Void = { _ in }
  ) {
    (throttle, self.tally, self.record) = (Throttle(logger), tally, record)
  }

  func noticed(_ notice: CatalogNotice) {
    tally.withLock { $0.count(notice) }
    switch notice {
    case .responded: break
    case .attempted(let attempt): record(attempt)
    case .tokenRejected(let rejection, let key):
      throttle.log("tokenRejected", at: .error, "\(rejection)", key.map { ["key.id": "\($0)"] } ?? [:])
    case .tokenAccepted:
      throttle.end("tokenRejected", "Apple Music accepts this server's developer tokens again.")
    case .tokenFailed(let reason):
      throttle.log("tokenFailed", at: .error, "The server cannot make a developer token. \(reason)")
    case .exchangeFailed(let error): throttle.log("exchangeFailed", "\(error)")
    case .upstreamStatus(let status): throttle.log("upstreamStatus", "Apple Music responded with status \(status).")
    case .limited(let rate):
      let pace =
        rate.map { "The server sends about \($0.paceText) a second for now." } ?? "All replicas pause for a moment."
      throttle.log("limited", "Apple Music limits the team's requests. \(pace)")
    case .circuitOpened:
      throttle.log(
        "circuitOpened",
        "Apple Music has failed repeatedly. Until it responds again, the server sends it only a few requests.")
    case .circuitClosed: throttle.end("circuitOpened", "Apple Music responds again.")
    }
  }
}

/// The attempts at Apple Music: the time until the response began, or the cause of the failure.
struct UpstreamTally: Sendable {
  private var durations = DurationHistogram()
  private var errors: [Cause: Int] = [:]

  enum Cause: String, CaseIterable {
    case dns, connect, tls, timeout, broken
    case protocolViolation = "protocol"
    case status, other
  }

  static let readings: [MetricReading<UpstreamTally>] = [
    .init(
      "musickit_upstream_response_seconds",
      "Time from an attempt's start to the head of Apple Music's response, including the wait for a connection.",
      isHistogram: true, \.durations),
    .init(
      "musickit_upstream_errors_total", "Failed attempts to send a request to Apple Music, by cause.",
      by: "cause", of: Cause.self, named: \.rawValue
    ) { $0.errors[$1, default: 0] },
  ]

  mutating func count(_ notice: CatalogNotice) {
    switch notice {
    case .responded(let duration): durations.add(duration)
    case .exchangeFailed(let error): errors[Cause(error.cause), default: 0] &+= 1
    case .upstreamStatus: errors[.status, default: 0] &+= 1
    default: break
    }
  }
}

extension UpstreamTally.Cause {
  init(_ cause: UpstreamError.Cause) {
    self =
      switch cause {
      case .dnsError, .dnsTimeout: .dns
      case .destinationUnavailable, .destinationIPUnroutable, .connectionRefused, .connectionTimeout: .connect
      case .tlsProtocolError, .tlsCertificateError, .tlsAlertReceived: .tls
      case .connectionReadTimeout, .connectionWriteTimeout, .responseTimeout: .timeout
      case .connectionTerminated, .responseIncomplete: .broken
      case .protocolError, .responseHeaderSectionSize: .protocolViolation
      case .connectionLimitReached, .proxyInternalError, .cancelled: .other
      }
  }
}

extension Double {
  /// The number of requests per second, with at most one decimal.
  var paceText: String {
    let tenths = Int(Swift.min(Swift.max(self, 0), 1e9) * 10)
    return tenths >= 100 || tenths % 10 == 0 ? "\(tenths / 10)" : "\(tenths / 10).\(tenths % 10)"
  }
}
