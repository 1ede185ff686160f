import DeveloperToken
import EventLoop
import Glibc
import HTTPMessages
import HTTPServer
import TLS
import Telemetry

/// The metrics that change before something fails.
extension ServerMetrics {
  static let readiness = MetricReading<ReadinessReport>.group([
    .init(
      "musickit_readiness",
      "The checks of the admin listener's /readyz: 1 for the present status of each check, 0 for the others.",
      labels: ["check", "status"]
    ) { report in
      report.checks.flatMap { check in
        ReadinessReport.Result.allCases.map { ([.word(check.name), .configured($0.rawValue)], check.result == $0) }
      }
    }
  ]) { $0.services.health.report($0.generation) }

  /// The metrics of tokens. Most of those for each use have no sample before the first token.
  static let tokens = MetricReading<TokenMinter>.group([
    // The signatures of a replaced key no longer count. Prometheus treats a counter that decreases as a restarted one.
    .init(
      "musickit_token_signatures_total", "Developer tokens signed, for callers and for the upstream.", \.signatureCount),
    ofTokens(
      "musickit_token_remaining_seconds",
      "Time until the newest developer token expires; negative if it has expired. For callers, the token with the "
        + "default lifetime."
    ) { $0.usual.map { $0.expiresAt - Glibc.time(nil) } },
    ofTokens(
      "musickit_token_lifetime_seconds", "Lifetime of that token. The server replaces a token at half of its lifetime."
    ) { $0.usual.map { $0.expiresAt - $0.mintedAt } },
    ofTokens(
      "musickit_token_minted_timestamp_seconds",
      "Time when the last developer token was signed, in seconds since 1970.", \.lastMintedAt),
    ofTokens("musickit_token_failures_total", "Developer tokens that the server could not make.", \.failures),
  ]) { $0.generation.minter }

  private static func ofTokens(
    _ name: String, _ help: String, _ value: @escaping @Sendable (MintingRecord) -> Int?
  ) -> MetricReading<TokenMinter> {
    .init(name, help, by: "use", of: MintingRecord.Use.self) { value($0.record(of: $1)) }
  }

  /// The metrics of the certificates that the server trusts or sees. They have no sample without such a certificate.
  static let otherCertificates = MetricReading<(tls: TLSContext?, upstream: TLSClientContext?)>.group([
    .init(
      "musickit_tls_client_ca_remaining_seconds",
      "Time until the first CA of server.tls.clientCAFile expires; negative if it has expired."
    ) { remaining($0.tls?.clientAuthoritiesNotAfter) },
    .init(
      "musickit_upstream_certificate_remaining_seconds",
      "Time until the first certificate of Apple Music's chain expires, as of the last full TLS handshake."
    ) { remaining($0.upstream?.current.serverChainNotAfter) },
    .init(
      "musickit_upstream_ca_remaining_seconds",
      "Time until the first CA of catalog.caFile expires; negative if it has expired."
    ) { remaining($0.upstream?.current.authoritiesNotAfter) },
  ]) { ($0.generation.tls, $0.services.catalog?.authorities) }

  private static func remaining(_ notAfter: Int?) -> Int? { notAfter.map { $0 - Glibc.time(nil) } }

  static let loops = MetricReading<[LoopLag]>.group([
    ofLoops(
      "musickit_loop_lag_seconds",
      "Longest time for which the event loop kept events or deadlines waiting, in the last one to two minutes."
    ) { $0.longest.seconds },
    ofLoops(
      "musickit_loop_late_turns_total",
      "Turns of the event loop that kept events or deadlines waiting for more than 0.1 s."
    ) { $0.lateTurns },
    ofLoops("musickit_loop_busy_seconds_total", "Time in which the event loop worked instead of waiting.") {
      $0.busy.seconds
    },
  ]) { $0.server?.loopLags }

  private static func ofLoops(
    _ name: String, _ help: String, _ value: @escaping @Sendable (LoopLag) -> some MetricValue
  ) -> MetricReading<[LoopLag]> {
    .init(name, help, labels: ["loop"]) { lags in lags.enumerated().map { ([.number($0)], value($1)) } }
  }

  static let refusals = MetricReading<ConnectionTally>.group([
    .init(
      "musickit_unavailable_total",
      "Connections and requests that the server refused because it lacked something, by cause.",
      by: "cause", of: Shortage.self, named: \.rawValue
    ) { $0.shortages[$1, default: 0] },
    .init(
      "musickit_http2_misconduct_total",
      "Streams and connections of HTTP/2 that the server ended because their client broke the protocol or a limit.",
      by: "reason", of: HTTP2Misconduct.self, named: \.rawValue
    ) { $0.http2Misconduct[$1, default: 0] },
  ]) { $0.connections }
}
