import ServerSettings
import TokenServer

/// The check of `doctor` on the collector of spans: it sends a request without any span.
enum CollectorDiagnosis {
  /// The most time, whatever the settings allow.
  private static let patience = Duration.seconds(10)

  /// Adds the result to `diagnosis`; nothing if the server exports no spans.
  static func run(_ draft: SettingsDraft, _ diagnosis: inout Diagnosis) {
    guard let settings = draft.spanExport else { return }
    diagnosis.add(.spanCollector, after: .listeners)
    guard let authorities = draft.files.loadCollectorAuthorities() else {
      return diagnosis.skip(.spanCollector, dependsOn: .settings)
    }
    do {
      let reason = try SpanExporter.refusal(
        of: settings, authorities: authorities, proxy: draft.proxies.proxy(for: settings.endpoint.origin),
        within: min(settings.timeout, patience))
      guard let reason else { return diagnosis.pass(.spanCollector, "\(settings.endpoint) takes spans.") }
      diagnosis.fail(
        .spanCollector, "\(settings.endpoint) does not take spans. \(reason)",
        fix: "The server drops them and serves all requests. Check otel.exporter.otlp, and that the collector runs.",
        blocks: false)
    } catch {
      diagnosis.fail(.spanCollector, "\(error)", fix: nil, blocks: false)
    }
  }
}
