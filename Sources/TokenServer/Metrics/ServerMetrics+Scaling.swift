import Access
import CatalogProxy
import Telemetry

extension ServerMetrics {
  static let group: [MetricReading<ReplicaGroup>] = [
    MetricReading(
      "musickit_shared_store_usable", "1 while the store of shared.url responds and accepts commands, else 0."
    ) { $0.problem == nil },
    MetricReading(
      .gauge, "musickit_shared_replicas", "Replicas that share the store, this one included, as last known."
    ) { $0.state.count },
    MetricReading(
      .counter, "musickit_shared_settlements_total", "Settlements with the store that had a response in time."
    ) { $0.counts.settlements },
    MetricReading(
      .counter, "musickit_shared_settlements_missed_total",
      "Settlements without a response in time. Until the next one, the replica keeps limits of its own."
    ) { $0.counts.missed },
    MetricReading(
      .counter, "musickit_shared_commands_refused_total", "Commands that the store refused with an error."
    ) { $0.counts.refused },
    MetricReading(
      .counter, "musickit_shared_messages_invalid_total",
      "Messages on the group's channel that this version does not understand."
    ) { $0.counts.invalidMessages },
  ]

  static let replicasDiffer = LabelledMetric<[GroupFacts.Part]>(
    .gauge, "musickit_shared_replicas_differ",
    "1 while another replica at the store differs from this one in the signing key or team, in the rateLimit of a client, "
      + "or in the version, else 0.",
    by: "part", of: GroupFacts.Part.self, { .configured($0.rawValue) }, { $0.contains($1) ? 1 : 0 })

  static let sharedRates: [MetricReading<GroupRates>] = [
    MetricReading(
      .counter, "musickit_shared_rates_unrecorded_total",
      "Granted requests that count on this replica only, because too many different callers wait for a settlement."
    ) { $0.rates.unrecorded }
  ]

  static let sharedMessages = LabelledMetric<GroupCounts>(
    .counter, "musickit_shared_messages_total", "Messages of other replicas, by what they are about.",
    by: "kind", of: GroupMessage.Kind.self, { .word($0.label) }, { $0.messages[$1, default: 0] })

  static let sharedLookups = LabelledMetric<SharedCacheCounts>(
    .counter, "musickit_shared_cache_lookups_total",
    "Lookups of responses at the store before a request to Apple Music, by result.",
    by: "result", of: SharedLookupResult.self, { .word($0.label) }, { $0.lookups[$1, default: 0] })

  static let sharedStores: [MetricReading<SharedCacheCounts>] = [
    MetricReading(.counter, "musickit_shared_cache_stores_total", "Responses that the store has taken.", \.stores),
    MetricReading(
      .counter, "musickit_shared_cache_stores_failed_total",
      "Responses that the store has not taken, because it is full, read-only or slow.", \.failedStores),
  ]
}

extension GroupMessage.Kind {
  fileprivate var label: StaticString {
    switch self {
    case .rates: "rates"
    case .quota: "quota"
    case .cache: "cache"
    }
  }
}

extension SharedLookupResult {
  fileprivate var label: StaticString {
    switch self {
    case .hit: "hit"
    case .waited: "waited"
    case .miss: "miss"
    case .invalid: "invalid"
    case .timeout: "timeout"
    case .vain: "vain"
    case .skipped: "skipped"
    }
  }
}
