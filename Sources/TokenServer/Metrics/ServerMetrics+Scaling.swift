import Telemetry

/// The metrics of the store that the replicas share.
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
      .counter, "musickit_shared_messages_total", "Messages of other replicas."
    ) { $0.counts.messages },
    MetricReading(
      .counter, "musickit_shared_messages_invalid_total",
      "Messages on the group's channel that this version does not understand."
    ) { $0.counts.invalidMessages },
  ]
}
