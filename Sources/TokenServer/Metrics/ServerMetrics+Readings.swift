import Access
import CatalogProxy
import DeveloperToken
import Glibc
import HTTPCache
import HTTPClient
import HTTPServer
import Locks
import Memory
import TLS
import Telemetry
import UpstreamAdmission

/// The metrics, each with its name, its meaning and the source of its value.
extension ServerMetrics {
  /// The metrics, in the order of the page.
  static let groups = [
    build, readiness,
    MetricReading.group(RequestMetrics.readings) { $0.services.metrics.requests.totals },
    MetricReading.group(AccessTally.readings) { $0.services.access.tally.withLock { $0 } },
    audit, keySets, reloads, refusals, loops, openConnections, memory, failedConnections, tlsFailures, tokens,
    SigningKeys.metrics, certificate, otherCertificates, catalog,
    MetricReading.group(UpstreamTally.readings) { $0.services.catalog?.tally.withLock { $0 } },
    upstreamConnections, group, sharedRates, sharedCache, spans, log, process,
  ]

  private static let build = MetricReading<StaticString>.group([
    .init("musickit_build_info", "Always 1; the label has the release.", labels: ["version"]) { [([.word($0)], 1)] }
  ]) { _ in Release.version }

  private static let audit = MetricReading<AuditLog>.group([
    .init(
      "musickit_audit_lines_dropped_total", "Audit records lost because the server could not write their file.",
      \.lostLines),
    .init(
      "musickit_audit_grants_unrecorded_total",
      "Grants and key events without an audit record, because too many records waited to be written.",
      \.state.unrecorded),
  ]) { $0.services.access.audit }

  private static let tlsFailures = MetricReading<ConnectionTally>.group([
    .init(
      "musickit_tls_failures_total", "TLS sessions that failed, mostly handshakes, by cause.",
      by: "cause", of: TLSFailure.self, named: { "\($0.label)" }
    ) { $0.tlsFailures[$1, default: 0] }
  ]) { $0.generation.tls == nil ? nil : $0.connections }

  private static let openConnections = MetricReading<Server>.group([
    .init("musickit_connections_open", "Open connections.", \.connections.open),
    .init("musickit_connections_accepted_total", "Accepted connections.", \.connections.accepted),
    .init(
      "musickit_connections_without_deadline",
      "Connections of callers and to upstreams that wait without a deadline. Any other value than 0 is a defect.",
      \.connectionsWithoutDeadline),
  ]) { $0.server }

  private static let memory = MetricReading<MemoryBudget>.group([
    .init("musickit_memory_budget_bytes", "The memory budget, server.limits.memory.", \.limit),
    .init("musickit_memory_budget_used_bytes", "The part of the memory budget in use.", \.used),
    .init(
      "musickit_memory_refusals_total", "Requests for memory that exceeded the memory budget.",
      by: "cause", of: MemoryBudget.Purpose.self
    ) { $0.refusals(for: $1) },
  ]) { $0.services.memory }

  private static let failedConnections = MetricReading<ConnectionTally>.group([
    .init("musickit_connections_refused_total", "Connections refused because of server.limits.connections.", \.refused),
    .init(
      "musickit_connections_refused_per_address_total",
      "Connections refused because of server.limits.connectionsPerAddress.", \.refusedPerAddress),
    .init(
      "musickit_connections_recycled_total",
      "Connections that only waited, and that the server ended because another address needed their place or their memory.",
      \.recycled),
    .init(
      "musickit_accept_pauses_total", "Pauses in accepting connections, because descriptors or memory were exhausted.",
      \.acceptPauses),
    .init(
      "musickit_proxy_headers_refused_total",
      "Connections of trusted proxies that the server closed because the PROXY header was missing or malformed.",
      \.proxyHeadersRefused),
    .init(
      "musickit_forwarded_ignored_total",
      "Requests with a Forwarded, X-Forwarded-For or X-Request-ID that is ignored: of an untrusted peer, or not the field of "
        + "`server.forwarded`, or contradictory.",
      \.forwardingIgnored),
  ]) { $0.connections }

  private static let keySets = MetricReading<KeySetCounts>.group([
    .init("musickit_key_set_fetches_total", "Requests for keys of an identity provider.", \.fetches),
    .init(
      "musickit_key_set_failures_total", "Requests for keys of an identity provider that returned no usable key set.",
      \.failures),
    .init("musickit_key_sets_missing", "Identity providers without keys as yet; their tokens get 503.", \.missing),
    .init(
      "musickit_key_set_oldest_age_seconds", "Age of the oldest fetched key set in use; 0 without one."
    ) { $0.oldestAge ?? 0 },
  ]) { $0.services.access.keySets.counts }

  private static let reloads = MetricReading<ReloadTally>.group([
    .init("musickit_reloads_total", "Reloads of settings, key and certificates, failed ones included.", \.reloads),
    .init(
      "musickit_reloads_refused_total", "Reloads that failed, after which all old settings stayed in use.", \.refused),
    .init(
      "musickit_settings_stale", "1 after a failed reload: the server uses older settings than those in its files."
    ) { $0.refusal != nil },
    .init(
      "musickit_settings_timestamp_seconds",
      "Time of the last successful reload, or of the start, in seconds since 1970.", \.lastSuccess),
    .init(
      "musickit_setting_needs_restart",
      "1 for each setting that has changed in the files and needs a restart; no sample without one.",
      labels: ["setting"]
    ) { $0.needingRestart.map { ([.configured($0)], 1) } },
  ]) { $0.services.metrics.reloads.withLock { $0 } }

  private static let certificate = MetricReading<TLSContext>.group([
    .init(
      "musickit_tls_certificate_remaining_seconds",
      "Time until a certificate in use expires; negative if it has expired. The default one has no label, and others "
        + "have their first name.",
      labels: ["certificate"]
    ) { tls in
      let now = Glibc.time(nil)
      return [([], tls.certificateNotAfter - now)]
        + tls.furtherCertificates.map { ([.configured($0.name)], $0.certificate.notAfter - now) }
    }
  ]) { $0.generation.tls }

  private static let catalog = MetricReading<CatalogStatus>.group([
    .init("musickit_upstream_attempts_total", "Requests sent to Apple Music, retries included.", \.counts.attempts),
    .init("musickit_upstream_retries_total", "Retries of requests to Apple Music.", \.counts.retries),
    .init(
      "musickit_upstream_token_rejections_total", "Responses of Apple Music with 401 to a developer token.",
      \.counts.tokenRejections),
    .init("musickit_upstream_tokens_minted_total", "Developer tokens minted for the upstream.", \.counts.tokensMinted),
    .init("musickit_upstream_rate_limited_total", "Responses of Apple Music with 429.", \.counts.limited),
    .init(
      "musickit_upstream_failures_total", "Responses of Apple Music with 5xx, and exchanges that ended too early.",
      \.counts.failures),
    .init(
      "musickit_upstream_token_rejected", "1 while Apple Music refuses this server's developer tokens.",
      \.isTokenRejected),
    .init(
      "musickit_upstream_circuit_open",
      "1 while the server sends Apple Music only a few requests, after repeated failures.", \.isCircuitOpen),
    .init(
      "musickit_upstream_concurrency_limit", "Maximum number of concurrent requests to Apple Music at present.",
      \.limit),
    .init("musickit_upstream_requests_in_flight", "Requests in flight to Apple Music.", \.inFlight),
    .init("musickit_upstream_requests_waiting", "Requests that wait in the queue for Apple Music.", \.waiting),
    .init("musickit_upstream_saturation_ratio", "The part of the concurrency limit in use, from 0 to 1.", \.saturation),
    .init(
      "musickit_upstream_clock_skew_seconds",
      "Seconds by which Apple Music's clock is ahead of the server's: the least that recent Date fields allow.",
      \.clockSkew),
    .init(
      "musickit_upstream_rate",
      "Requests a second that Apple Music allows, according to its 429s and to faster probes that it has not refused; 0 "
        + "before the first 429."
    ) { $0.rate ?? 0 },
    .init("musickit_upstream_paused", "1 while the server pauses requests to Apple Music, after a 429.", \.isPaused),
    .init("musickit_cache_hits_total", "Responses from the cache, fresh or stale.", \.cache.hits),
    .init("musickit_cache_misses_total", "Cacheable requests without a response in the cache.", \.counts.misses),
    .init(
      "musickit_cache_collapsed_total", "Requests that shared the response to another request.", \.counts.collapsed),
    .init("musickit_cache_stale_on_error_total", "Stale responses sent instead of an error.", \.counts.staleOnError),
    .init(
      "musickit_cache_stale_while_waiting_total", "Stale responses sent because Apple Music was slow.",
      \.counts.staleWhileWaiting),
    .init(
      "musickit_cache_evictions_total", "Responses removed from the cache to make room for others.", \.cache.evictions),
    .init("musickit_cache_entries", "Resources with a response in the cache.", \.cache.entries),
    .init("musickit_cache_bytes", "Memory that the cache uses.", \.cache.bytes),
    ofClients(
      "musickit_upstream_client_attempts_total", "Requests of a client sent to Apple Music, retries included.",
      \.attempts),
    ofClients(
      "musickit_upstream_client_rate_limited_total", "Responses of Apple Music with 429 to requests of a client.",
      \.limited),
  ]) { $0.services.catalog?.proxy.status }

  private static func ofClients(
    _ name: String, _ help: String, _ count: @escaping @Sendable (ClientCounts) -> Int
  ) -> MetricReading<CatalogStatus> {
    .init(name, help, labels: ["client"]) { status in
      status.clients.sorted { $0.key < $1.key }.map { ([.configured($0.key)], count($0.value)) }
    }
  }

  private static let upstreamConnections = MetricReading<UpstreamCounters>.group([
    .init("musickit_upstream_connections_open", "Open connections to Apple Music.", \.connectionsOpen),
    .init("musickit_upstream_connection_requests", "Requests in flight on connections to Apple Music.", \.requestsOpen),
    .init(
      "musickit_upstream_connection_waiting", "Requests that wait for a connection or a free stream.",
      \.requestsWaiting),
    .init("musickit_upstream_connections_opened_total", "Connections opened to Apple Music.", \.connectionsOpened),
    .init(
      "musickit_upstream_connections_failed_total", "Failed attempts to connect to Apple Music.", \.connectionsFailed),
    .init(
      "musickit_upstream_tls_resumptions_total", "TLS handshakes that resumed an earlier session.",
      \.handshakesResumed),
    .init(
      "musickit_upstream_connection_reuses_total", "Requests on a connection that had carried an earlier request.",
      \.requestsOnReusedConnection),
    .init(
      "musickit_upstream_unsolicited_total", "HTTP/1.1 connections to Apple Music that sent bytes without a request.",
      \.unsolicitedResponses),
  ]) { $0.services.catalog?.counters }

  private static let spans = MetricReading<SpanCounts>.group([
    .init("musickit_spans_exported_total", "Spans that the collector accepted.", \.exported),
    .init(
      "musickit_spans_dropped_total",
      "Spans that the server did not export: the queue was full, the collector failed, or it rejected them.",
      labels: ["reason"]
    ) { counts in
      [
        ([.word("queue_full")], counts.droppedByQueue), ([.word("failed")], counts.failed),
        ([.word("rejected")], counts.rejected),
      ]
    },
  ]) { $0.services.spans?.counts }

  private static let log = MetricReading<LogSink>.group([
    .init("musickit_log_lines_dropped_total", "Log lines lost because the reader was too slow.", \.lostLines)
  ]) { $0.services.sink }

  private static let process = MetricReading<ProcessFigures>.group([
    .init("process_start_time_seconds", "Start time of the process, in seconds since 1970.", \.startTime),
    .init("process_cpu_seconds_total", "CPU time of all cores, user and system.", \.cpuSeconds),
    .init("process_resident_memory_bytes", "Memory in use, shared pages included.", \.residentBytes),
    .init("process_open_fds", "Open descriptors.", \.openDescriptors),
    .init("process_max_fds", "Maximum number of open descriptors.", \.maximumDescriptors),
  ]) { ProcessFigures(startTime: $0.services.metrics.startTime) }
}

extension ServerMetrics {
  private static let group = MetricReading<ReplicaGroup.Status>.group([
    .init(
      "musickit_shared_store_usable", "1 while the store of shared.url responds and accepts commands, else 0."
    ) { $0.problem == nil },
    .init(
      "musickit_shared_replicas", "Replicas that share the store, this one included, as last known.", \.state.count),
    .init(
      "musickit_shared_settlements_total", "Settlements with the store that had a response in time.",
      \.counts.settlements),
    .init(
      "musickit_shared_settlements_missed_total",
      "Settlements without a response in time. Until the next one, the replica keeps limits of its own.",
      \.counts.missed),
    .init("musickit_shared_commands_refused_total", "Commands that the store refused with an error.", \.counts.refused),
    .init(
      "musickit_shared_messages_invalid_total",
      "Messages on the group's channel that this version does not understand.", \.counts.invalidMessages),
    .init(
      "musickit_shared_replicas_differ",
      "1 while another replica at the store differs from this one in the signing key or team, in the rateLimit of a client, "
        + "or in the version, else 0.",
      by: "part", of: GroupFacts.Part.self, named: \.rawValue
    ) { $0.differences.contains($1) },
    .init(
      "musickit_shared_messages_total", "Messages of other replicas, by what they are about.",
      by: "kind", of: GroupMessage.Kind.self
    ) { $0.counts.messages[$1, default: 0] },
  ]) { $0.services.group?.status }

  private static let sharedRates = MetricReading<GroupRates>.group([
    .init(
      "musickit_shared_rates_unrecorded_total",
      "Granted requests that count on this replica only, because too many different callers wait for a settlement.",
      \.rates.unrecorded)
  ]) { $0.services.rates }

  private static let sharedCache = MetricReading<SharedCacheCounts>.group([
    .init(
      "musickit_shared_cache_lookups_total",
      "Lookups of responses at the store before a request to Apple Music, by result.",
      by: "result", of: SharedLookupResult.self
    ) { $0.lookups[$1, default: 0] },
    .init("musickit_shared_cache_stores_total", "Responses that the store has taken.", \.stores),
    .init(
      "musickit_shared_cache_stores_failed_total",
      "Responses that the store has not taken, because it is full, read-only or slow.", \.failedStores),
  ]) { $0.services.sharedCache?.counts }
}
