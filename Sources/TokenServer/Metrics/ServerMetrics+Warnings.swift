import DeveloperToken
import EventLoop
import Glibc
import HTTPMessages
import HTTPServer
import TLS
import Telemetry

/// The metrics that change before something fails: tokens, certificates, readiness, delays of event loops, and what the
/// server lacked when it refused requests.
extension ServerMetrics {
  static let readiness = MetricReading<ReadinessReport>(
    .gauge, "musickit_readiness",
    "The checks of the admin listener's /readyz: 1 for the present status of each check, 0 for the others.",
    labels: ["check", "status"]
  ) { report in
    report.checks.flatMap { check in
      ReadinessReport.Result.allCases.map { result in
        ([.word(check.name), .configured(result.rawValue)], check.result == result ? 1 : 0)
      }
    }
  }

  /// The metrics of tokens. Most of those for each use have no sample before the first token.
  static let tokens = [
    // The signatures of a replaced key no longer count. Prometheus treats a counter that decreases as a restarted one.
    MetricReading<TokenMinter>(
      .counter, "musickit_token_signatures_total", "Developer tokens signed, for callers and for the upstream.",
      \.signatureCount),
    ofTokens(
      .gauge, "musickit_token_remaining_seconds",
      "Time until the newest developer token expires; negative if it has expired. For callers, the token with the "
        + "default lifetime."
    ) { $0.usual.map { $0.expiresAt - Glibc.time(nil) } },
    ofTokens(
      .gauge, "musickit_token_lifetime_seconds",
      "Lifetime of that token. The server replaces a token at half of its lifetime."
    ) { $0.usual.map { $0.expiresAt - $0.mintedAt } },
    ofTokens(
      .gauge, "musickit_token_minted_timestamp_seconds",
      "Time when the last developer token was signed, in seconds since 1970.", \.lastMintedAt),
    ofTokens(
      .counter, "musickit_token_failures_total", "Developer tokens that the server could not make."
    ) { $0.failures },
  ]

  private static func ofTokens(
    _ kind: Metric.Kind, _ name: String, _ help: String, _ value: @escaping @Sendable (MintingRecord) -> Int?
  ) -> MetricReading<TokenMinter> {
    MetricReading(
      kind, name, help, by: "use", of: MintingRecord.Use.self, { .word($0.name) }, { value($0.record(of: $1)) })
  }

  /// The metrics of the certificates that the server trusts or sees. They have no sample without such a certificate.
  static let otherCertificates = [
    ofCertificate(
      "musickit_tls_client_ca_remaining_seconds",
      "Time until the first CA of server.tls.clientCAFile expires; negative if it has expired."
    ) { $0.tls?.clientAuthoritiesNotAfter },
    ofCertificate(
      "musickit_upstream_certificate_remaining_seconds",
      "Time until the first certificate of Apple Music's chain expires, as of the last full TLS handshake."
    ) { $0.upstream?.current.serverChainNotAfter },
    ofCertificate(
      "musickit_upstream_ca_remaining_seconds",
      "Time until the first CA of catalog.caFile expires; negative if it has expired."
    ) { $0.upstream?.current.authoritiesNotAfter },
  ]

  typealias Certificates = (tls: TLSContext?, upstream: TLSClientContext?)

  private static func ofCertificate(
    _ name: String, _ help: String, _ notAfter: @escaping @Sendable (Certificates) -> Int?
  ) -> MetricReading<Certificates> {
    MetricReading(.gauge, name, help, labels: []) { source in
      notAfter(source).map { [([], Double($0 - Glibc.time(nil)))] } ?? []
    }
  }

  static let loops = [
    ofLoops(
      .gauge, "musickit_loop_lag_seconds",
      "Longest time for which the event loop kept events or deadlines waiting, in the last one to two minutes."
    ) { $0.longest.seconds },
    ofLoops(
      .counter, "musickit_loop_late_turns_total",
      "Turns of the event loop that kept events or deadlines waiting for more than 0.1 s."
    ) { Double($0.lateTurns) },
    ofLoops(
      .counter, "musickit_loop_busy_seconds_total", "Time in which the event loop worked instead of waiting."
    ) { $0.busy.seconds },
  ]

  private static func ofLoops(
    _ kind: Metric.Kind, _ name: String, _ help: String, _ value: @escaping @Sendable (LoopLag) -> Double
  ) -> MetricReading<[LoopLag]> {
    MetricReading(kind, name, help, labels: ["loop"]) { lags in
      lags.enumerated().map { ([.number($0)], value($1)) }
    }
  }

  static let refusals = [
    MetricReading<ConnectionTally.Counts>(
      .counter, "musickit_unavailable_total",
      "Connections and requests that the server refused because it lacked something, by cause.",
      by: "cause", of: Shortage.self, { .word($0.name) }, { $0.shortages[$1, default: 0] }),
    MetricReading<ConnectionTally.Counts>(
      .counter, "musickit_http2_misconduct_total",
      "Streams and connections of HTTP/2 that the server ended because their client broke the protocol or a limit.",
      by: "reason", of: HTTP2Misconduct.self, { .configured($0.rawValue) }, { $0.http2Misconduct[$1, default: 0] }),
  ]
}

extension MintingRecord.Use {
  fileprivate var name: StaticString {
    switch self {
    case .caller: "caller"
    case .upstream: "upstream"
    }
  }
}

extension Shortage {
  fileprivate var name: StaticString {
    switch self {
    case .connections: "connections"
    case .connectionsOfAddress: "connections_per_address"
    case .memory: "memory"
    case .processorTime: "processor_time"
    case .queue: "queue"
    case .queueTime: "queue_time"
    case .upstreamConnections: "upstream_connections"
    case .circuit: "circuit"
    case .developerToken: "developer_token"
    case .providerKeys: "provider_keys"
    case .draining: "draining"
    }
  }
}
