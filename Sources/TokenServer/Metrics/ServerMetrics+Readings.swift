import CatalogProxy
import DeveloperToken
import Glibc
import HTTPCache
import HTTPClient
import HTTPServer
import Memory
import TLS
import Telemetry

/// The metrics, each with its name, its meaning and the source of its value.
extension ServerMetrics {
  /// All metrics, in the order of the page.
  static let all: [Metric] =
    [build] + [RequestMetrics.requests, RequestMetrics.durations, RequestMetrics.bytes]
    + [AccessTally.decisions] + AccessTally.audit.map(\.metric) + keySets.map(\.metric)
    + reloads.map(\.metric)
    + openConnections.map(\.metric) + memory.map(\.metric) + [memoryRefusals] + failedConnections.map(\.metric)
    + [tlsFailures] + tokens.map(\.metric) + certificate.map(\.metric)
    + catalog.map(\.metric) + [clientAttempts, clientLimited] + [UpstreamTally.responseTimes, UpstreamTally.failures]
    + upstreamConnections.map(\.metric) + log.map(\.metric) + start.map(\.metric)
    + process.map(\.metric)

  static let build = Metric(
    .gauge, "musickit_build_info", "Always 1; the label says which release runs.", labels: ["version"])

  static let tlsFailures = Metric(
    .counter, "musickit_tls_failures_total", "TLS sessions that failed, mostly handshakes, by cause.",
    labels: ["cause"])

  static let openConnections: [MetricReading<Server>] = [
    MetricReading(.gauge, "musickit_connections_open", "Connections that are open.") { $0.connections.open },
    MetricReading(.counter, "musickit_connections_accepted_total", "Connections that were let in.") {
      $0.connections.accepted
    },
    MetricReading(
      .gauge, "musickit_connections_without_deadline",
      "Connections, of callers and to upstreams, that would wait for ever. Always 0: anything else is a defect."
    ) { $0.connectionsWithoutDeadline },
  ]

  static let memory: [MetricReading<MemoryBudget>] = [
    MetricReading(.gauge, "musickit_memory_budget_bytes", "The budget of memory, server.limits.memory.", \.limit),
    MetricReading(.gauge, "musickit_memory_budget_used_bytes", "What is charged to it at present.", \.used),
  ]

  static let memoryRefusals = Metric(
    .counter, "musickit_memory_refusals_total", "Times that memory was refused for want of budget.", labels: ["cause"])

  static let failedConnections: [MetricReading<ConnectionTally.Counts>] = [
    MetricReading(
      .counter, "musickit_connections_refused_total", "Connections turned away at server.limits.connections.",
      \.refused),
    MetricReading(
      .counter, "musickit_connections_refused_per_address_total",
      "Connections turned away at server.limits.connectionsPerAddress.", \.refusedPerAddress),
    MetricReading(
      .counter, "musickit_accept_pauses_total", "Pauses in accepting, for want of descriptors or memory.",
      \.acceptPauses),
    MetricReading(
      .counter, "musickit_proxy_headers_refused_total",
      "Connections of trusted proxies that were closed for want of a PROXY header.", \.proxyHeadersRefused),
    MetricReading(
      .counter, "musickit_forwarded_ignored_total",
      "Requests whose Forwarded, X-Forwarded-For or X-Request-ID did not count, for want of trust or agreement.",
      \.forwardingIgnored),
  ]

  /// The signatures of a replaced key no longer count. Prometheus treats a counter that decreases as a restarted one.
  static let tokens: [MetricReading<TokenMinter>] = [
    MetricReading(
      .counter, "musickit_token_signatures_total", "Developer tokens signed, for callers and for the upstream.",
      \.signatureCount)
  ]

  static let keySets: [MetricReading<KeySetCounts>] = [
    MetricReading(
      .counter, "musickit_key_set_fetches_total", "Times that keys of an identity provider were asked for.", \.fetches),
    MetricReading(
      .counter, "musickit_key_set_failures_total", "Of those, the ones that brought no usable key set.", \.failures),
    MetricReading(
      .gauge, "musickit_key_sets_missing", "Identity providers whose keys have not come yet: their tokens get 503.",
      \.missing),
    MetricReading(
      .gauge, "musickit_key_set_oldest_age_seconds", "Age of the oldest fetched key set in use; 0 without any."
    ) { $0.oldestAge ?? 0 },
  ]

  static let reloads: [MetricReading<ReloadTally.Counts>] = [
    MetricReading(
      .counter, "musickit_reloads_total", "Reloads of settings, key and certificates, refused ones included.", \.reloads
    ),
    MetricReading(
      .counter, "musickit_reloads_refused_total", "Of those, the ones after which all of the old stayed.", \.refused),
    MetricReading(
      "musickit_settings_stale",
      "1 while the last reload was refused: the server runs on older settings than its files hold.", \.lastWasRefused),
  ]

  static let certificate: [MetricReading<TLSContext>] = [
    MetricReading(
      .gauge, "musickit_tls_certificate_remaining_seconds",
      "Time until the certificate in use expires; negative when it has."
    ) { $0.certificateNotAfter - Glibc.time(nil) }
  ]

  static let catalog: [MetricReading<CatalogStatus>] = [
    MetricReading(
      .counter, "musickit_upstream_attempts_total", "Requests sent to Apple Music, retries among them.",
      \.counts.attempts),
    MetricReading(
      .counter, "musickit_upstream_retries_total", "Attempts behind the first one of a request.", \.counts.retries),
    MetricReading(
      .counter, "musickit_upstream_token_rejections_total", "Answers 401 of Apple Music to a developer token.",
      \.counts.tokenRejections),
    MetricReading(
      .counter, "musickit_upstream_tokens_minted_total", "Developer tokens minted for the upstream.",
      \.counts.tokensMinted),
    MetricReading(
      .counter, "musickit_upstream_rate_limited_total", "Answers 429 of Apple Music.", \.counts.limited),
    MetricReading(
      .counter, "musickit_upstream_failures_total", "Answers 5xx of Apple Music, and exchanges that broke off.",
      \.counts.failures),
    MetricReading(
      "musickit_upstream_token_rejected", "1 while Apple Music refuses this server's developer tokens.",
      \.isTokenRejected),
    MetricReading(
      "musickit_upstream_circuit_open", "1 while Apple Music is asked only now and then, after repeated failures.",
      \.isCircuitOpen),
    MetricReading(
      .gauge, "musickit_upstream_concurrency_limit", "Requests that may be at Apple Music at once for now.", \.limit),
    MetricReading(.gauge, "musickit_upstream_requests_in_flight", "Requests that are at Apple Music.", \.inFlight),
    MetricReading(
      .gauge, "musickit_upstream_requests_waiting", "Requests that wait for their turn at Apple Music.", \.waiting),
    MetricReading(
      .gauge, "musickit_upstream_saturation_ratio", "The part of the concurrency limit that is in use, from 0 to 1.",
      \.saturation),
    MetricReading(
      .gauge, "musickit_upstream_clock_skew_seconds",
      "Seconds by which Apple Music's clock is ahead of this one, as little as the Date of its latest responses allows.",
      \.clockSkew),
    MetricReading(
      .gauge, "musickit_upstream_rate",
      "Requests a second that Apple Music allows, as 429s have told; 0 before the first."
    ) { $0.rate ?? 0 },
    MetricReading(
      "musickit_upstream_paused", "1 while nothing is sent to Apple Music for a moment, after a 429.", \.isPaused),
    MetricReading(.counter, "musickit_cache_hits_total", "Responses from the cache, fresh or stale.", \.counts.hits),
    MetricReading(
      .counter, "musickit_cache_misses_total", "Requests that the cache is for and had no response to.", \.counts.misses
    ),
    MetricReading(
      .counter, "musickit_cache_collapsed_total", "Requests that shared the response to another.", \.counts.collapsed),
    MetricReading(
      .counter, "musickit_cache_stale_on_error_total", "Stale responses in place of a failure.", \.counts.staleOnError),
    MetricReading(
      .counter, "musickit_cache_stale_while_waiting_total", "Stale responses because Apple Music took long.",
      \.counts.staleWhileWaiting),
    MetricReading(
      .counter, "musickit_cache_evictions_total", "Responses that had to go for others.", \.cache.evictions),
    MetricReading(.gauge, "musickit_cache_entries", "Resources that the cache has responses for.", \.cache.entries),
    MetricReading(.gauge, "musickit_cache_bytes", "Memory that the cache takes.", \.cache.bytes),
  ]

  static let clientAttempts = Metric(
    .counter, "musickit_upstream_client_attempts_total",
    "Requests of a client sent to Apple Music, retries among them.",
    labels: ["client"])
  static let clientLimited = Metric(
    .counter, "musickit_upstream_client_rate_limited_total", "Answers 429 of Apple Music to requests of a client.",
    labels: ["client"])

  static let upstreamConnections: [MetricReading<UpstreamCounters>] = [
    MetricReading(
      .gauge, "musickit_upstream_connections_open", "Connections to Apple Music that are open.", \.connectionsOpen),
    MetricReading(
      .gauge, "musickit_upstream_connection_requests", "Requests that connections to Apple Music carry.", \.requestsOpen
    ),
    MetricReading(
      .gauge, "musickit_upstream_connection_waiting", "Requests that wait for a connection or a free stream.",
      \.requestsWaiting),
    MetricReading(
      .counter, "musickit_upstream_connections_opened_total", "Connections to Apple Music that were made.",
      \.connectionsOpened),
    MetricReading(
      .counter, "musickit_upstream_connections_failed_total", "Attempts at one that came to nothing.",
      \.connectionsFailed),
    MetricReading(
      .counter, "musickit_upstream_tls_resumptions_total", "TLS handshakes shortened by an earlier session's ticket.",
      \.handshakesResumed),
    MetricReading(
      .counter, "musickit_upstream_connection_reuses_total", "Requests on a connection that had carried another.",
      \.requestsOnReusedConnection),
    MetricReading(
      .counter, "musickit_upstream_unsolicited_total",
      "Times that an HTTP/1.1 connection to Apple Music brought bytes that answer no request.", \.unsolicitedResponses),
  ]

  static let log: [MetricReading<LogSink>] = [
    MetricReading(
      .counter, "musickit_log_lines_dropped_total", "Log lines lost because the reader was too slow.", \.lostLines)
  ]

  static let start: [MetricReading<Int>] = [
    MetricReading(.gauge, "process_start_time_seconds", "When the process began, since 1970.") { $0 }
  ]

  static let process: [MetricReading<ProcessFigures>] = [
    MetricReading(.counter, "process_cpu_seconds_total", "Time of all cores, user and system.", \.cpuSeconds),
    MetricReading(.gauge, "process_resident_memory_bytes", "Memory in use, shared pages included.", \.residentBytes),
    MetricReading(.gauge, "process_open_fds", "Descriptors that are open.", \.openDescriptors),
    MetricReading(.gauge, "process_max_fds", "The most that may be open.", \.maximumDescriptors),
  ]
}
