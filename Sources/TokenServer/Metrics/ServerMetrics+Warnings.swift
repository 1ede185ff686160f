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
  // MARK: Readiness

  static let readiness = Metric(
    .gauge, "musickit_readiness",
    "The checks of the admin listener's /readyz: 1 for the present status of each check, 0 for the others.",
    labels: ["check", "status"])

  static func write(_ report: ReadinessReport, to text: inout MetricsText) {
    text.begin(readiness)
    for check in report.checks {
      for status in ReadinessReport.Result.allCases {
        text.sample(of: readiness, check.result == status ? 1 : 0, [.word(check.name), .word(status.name)])
      }
    }
  }

  // MARK: Tokens

  /// A metric of the latest tokens for one use. It has no sample before the first token.
  struct TokenReading {
    let metric: Metric
    let value: (MintingRecord, _ now: Int) -> Int?

    init(
      _ kind: Metric.Kind, _ name: String, _ help: String, _ value: @escaping (MintingRecord, _ now: Int) -> Int?
    ) {
      metric = Metric(kind, name, help, labels: ["use"])
      self.value = value
    }
  }

  static var tokenReadings: [TokenReading] {
    [
      TokenReading(
        .gauge, "musickit_token_remaining_seconds",
        "Time until the newest developer token expires; negative if it has expired. For callers, the token with the "
          + "default lifetime."
      ) { record, now in record.usual.map { $0.expiresAt - now } },
      TokenReading(
        .gauge, "musickit_token_lifetime_seconds",
        "Lifetime of that token. The server replaces a token at half of its lifetime."
      ) { record, _ in record.usual.map { $0.expiresAt - $0.mintedAt } },
      TokenReading(
        .gauge, "musickit_token_minted_timestamp_seconds",
        "Time when the last developer token was signed, in seconds since 1970."
      ) { record, _ in record.lastMintedAt },
      TokenReading(
        .counter, "musickit_token_failures_total", "Developer tokens that the server could not make."
      ) { record, _ in record.failures },
    ]
  }

  static func write(_ minter: TokenMinter, to text: inout MetricsText) {
    let now = Glibc.time(nil)
    let records = MintingRecord.Use.allCases.map { ($0, minter.record(of: $0)) }
    for reading in tokenReadings {
      text.begin(reading.metric)
      for (use, record) in records {
        guard let value = reading.value(record, now) else { continue }
        text.sample(of: reading.metric, Double(value), [.word(use.name)])
      }
    }
  }

  // MARK: Certificates

  /// A metric of a certificate's end. It has no sample if there is no such certificate.
  struct CertificateReading {
    let metric: Metric
    let notAfter: (CertificateEnds) -> Int?

    init(_ name: String, _ help: String, _ notAfter: @escaping (CertificateEnds) -> Int?) {
      metric = Metric(.gauge, name, help)
      self.notAfter = notAfter
    }
  }

  /// The ends of the certificates that the server trusts or sees, in seconds since 1970.
  struct CertificateEnds {
    let clientAuthorities: Int?
    let upstreamChain: Int?
    let upstreamAuthorities: Int?
  }

  static var certificateReadings: [CertificateReading] {
    [
      CertificateReading(
        "musickit_tls_client_ca_remaining_seconds",
        "Time until the first CA of server.tls.clientCAFile expires; negative if it has expired.",
        \.clientAuthorities),
      CertificateReading(
        "musickit_upstream_certificate_remaining_seconds",
        "Time until the first certificate of Apple Music's chain expires, as of the last full TLS handshake.",
        \.upstreamChain),
      CertificateReading(
        "musickit_upstream_ca_remaining_seconds",
        "Time until the first CA of catalog.caFile expires; negative if it has expired.", \.upstreamAuthorities),
    ]
  }

  static func write(_ ends: CertificateEnds, to text: inout MetricsText) {
    let now = Glibc.time(nil)
    for reading in certificateReadings {
      text.begin(reading.metric)
      if let end = reading.notAfter(ends) { text.sample(of: reading.metric, Double(end - now)) }
    }
  }

  // MARK: Event loops

  /// A metric of each event loop.
  struct LoopReading {
    let metric: Metric
    let value: (LoopLag) -> Double

    init(_ kind: Metric.Kind, _ name: String, _ help: String, _ value: @escaping (LoopLag) -> Double) {
      metric = Metric(kind, name, help, labels: ["loop"])
      self.value = value
    }
  }

  static var loopReadings: [LoopReading] {
    [
      LoopReading(
        .gauge, "musickit_loop_lag_seconds",
        "Longest time for which the event loop kept events or deadlines waiting, in the last one to two minutes."
      ) { $0.longest.seconds },
      LoopReading(
        .counter, "musickit_loop_late_turns_total",
        "Turns of the event loop that kept events or deadlines waiting for more than 0.1 s."
      ) { Double($0.lateTurns) },
      LoopReading(
        .counter, "musickit_loop_busy_seconds_total", "Time in which the event loop worked instead of waiting."
      ) { $0.busy.seconds },
    ]
  }

  static func write(_ lags: [LoopLag], to text: inout MetricsText) {
    for reading in loopReadings {
      text.begin(reading.metric)
      for (index, lag) in lags.enumerated() { text.sample(of: reading.metric, reading.value(lag), [.number(index)]) }
    }
  }

  // MARK: Refusals

  static let unavailable = Metric(
    .counter, "musickit_unavailable_total",
    "Connections and requests that the server refused because it lacked something, by cause.", labels: ["cause"])

  static func write(_ counts: ConnectionTally.Counts, to text: inout MetricsText) {
    text.begin(unavailable)
    for shortage in Shortage.allCases {
      text.sample(of: unavailable, Double(counts.shortages[shortage, default: 0]), [.word(shortage.name)])
    }
    text.begin(http2Misconduct)
    for misconduct in HTTP2Misconduct.allCases {
      text.sample(
        of: http2Misconduct, Double(counts.http2Misconduct[misconduct, default: 0]), [.configured(misconduct.rawValue)])
    }
  }

  static let http2Misconduct = Metric(
    .counter, "musickit_http2_misconduct_total",
    "Streams and connections of HTTP/2 that the server ended because their client broke the protocol or a limit.",
    labels: ["reason"])
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
