import HTTPMessages
package import Tracing

extension Settings {
  /// The export of spans by OpenTelemetry's protocol. The variables of these settings are OpenTelemetry's own.
  package struct SpanExport: Sendable, Equatable {
    /// A field of each request to the collector. Its value may be a secret.
    package struct Header: Sendable, Equatable {
      /// A token (RFC 9110 §5.6.2).
      package let name: String
      /// Visible ASCII.
      package let value: String
    }

    /// The URL that receives the spans.
    package var endpoint: ServiceURL
    /// The setting that names this URL.
    let endpointSetting: String
    /// Nil for the system's store.
    package let certificate: String?
    /// The setting that names this file.
    package let certificateSetting: String
    package var headers: [Header]
    package var timeout: Duration
    package var sampler: Sampler
    package var scheduleDelay: Duration
    package var queueSize: Int
    package var batchSize: Int
    /// The attributes of this process in the export, `service.name` first.
    package var attributes: [ResourceAttribute]
  }

  /// An attribute of this process: who made the spans.
  package struct ResourceAttribute: Sendable, Equatable {
    package let key: String
    package let value: String
  }
}

extension Settings.SpanExport {
  /// The values of OTEL_TRACES_SAMPLER.
  enum SamplerName: String, CaseIterable {
    case alwaysOn = "always_on"
    case alwaysOff = "always_off"
    case ratio = "traceidratio"
    case parentBasedAlwaysOn = "parentbased_always_on"
    case parentBasedAlwaysOff = "parentbased_always_off"
    case parentBasedRatio = "parentbased_traceidratio"

    func sampler(ratio: Double) -> Sampler {
      switch self {
      case .alwaysOn: Sampler(.always, isParentBased: false)
      case .alwaysOff: Sampler(.never, isParentBased: false)
      case .ratio: Sampler(.ratio(ratio), isParentBased: false)
      case .parentBasedAlwaysOn: Sampler(.always, isParentBased: true)
      case .parentBasedAlwaysOff: Sampler(.never, isParentBased: true)
      case .parentBasedRatio: Sampler(.ratio(ratio), isParentBased: true)
      }
    }
  }

  /// The values of OTEL_TRACES_EXPORTER.
  enum ExporterName: String, CaseIterable {
    case otlp, none
  }

  /// The values of OTEL_EXPORTER_OTLP_PROTOCOL.
  enum ProtocolName: String, CaseIterable {
    case httpJSON = "http/json"
  }

  static let isDisabled = Setting(
    "otel.sdk.disabled", .openTelemetryBool, default: false, fixed: .presence(of: \.spanExport),
    "Whether the server exports no spans. Then it ignores all other settings of `otel`.")
  static let serviceName = Setting(
    "otel.service.name", .label("write a name such as \"musickit-token-server\""), default: "musickit-token-server",
    fixed: .of(\.spanExport, \.attributes),
    "The name of the service in the exported spans.")
  static let resourceAttributes = Setting(
    "otel.resource.attributes", .keyValueList, example: #""deployment.environment.name=production""#,
    fixed: .of(\.spanExport, \.attributes),
    "More attributes of the service: `key=value`, separated by commas, with percent-encoding.")
  static let exporter = Setting(
    "otel.traces.exporter", SettingType<ExporterName>.word, default: .otlp, fixed: .presence(of: \.spanExport),
    "`none` turns the export off.")
  static let sampler = Setting(
    "otel.traces.sampler", SettingType<SamplerName>.word, default: .parentBasedAlwaysOn,
    fixed: .of(\.spanExport, \.sampler),
    "Which requests have [spans](logs.md#tracing).")
  static let samplerArgument = Setting(
    "otel.traces.samplerArg", .number(0...1, remedy: "write a part of all traces such as 0.1"), default: 1,
    fixed: .of(\.spanExport, \.sampler),
    "The part of all traces for the samplers with a ratio.")
  static let scheduleDelay = Setting(
    "otel.bsp.scheduleDelay", .integer(1...3_600_000), default: 5000, fixed: .of(\.spanExport, \.scheduleDelay),
    "How many milliseconds a span waits at most before the server sends it.")
  static let maxQueueSize = Setting(
    "otel.bsp.maxQueueSize", .integer(1...16_384), default: 2048, fixed: .of(\.spanExport, \.queueSize),
    "The most spans that wait. Further ones are dropped and counted.")
  static let maxBatchSize = Setting(
    "otel.bsp.maxExportBatchSize", .integer(1...2048), default: 512, fixed: .of(\.spanExport, \.batchSize),
    "The most spans in one request to the collector.")

  static let known: [any SettingRow] =
    [isDisabled, serviceName, resourceAttributes, exporter, sampler, samplerArgument, scheduleDelay, maxQueueSize]
    + [maxBatchSize] + all.known + traces.known

  /// Reads the settings. Returns nil if the server exports nothing, or if they are invalid.
  init?(_ reader: inout SettingsReader) {
    guard let isDisabled = reader.read(Self.isDisabled), !isDisabled else { return nil }
    let exporter = reader.read(Self.exporter)
    let name = reader.read(Self.serviceName)
    let attributes = reader.isSet(Self.resourceAttributes.path) ? reader.read(Self.resourceAttributes) : []
    let sampler = reader.read(Self.sampler)
    let ratio = reader.read(Self.samplerArgument)
    let scheduleDelay = reader.read(Self.scheduleDelay)
    let queueSize = reader.read(Self.maxQueueSize)
    let batchSize = reader.read(Self.maxBatchSize)
    let all = Self.all.read(&reader)
    let traces = Self.traces.read(&reader)
    if let queueSize, let batchSize, batchSize > queueSize, reader.isSet(Self.maxBatchSize.path) {
      reader.reject(
        Self.maxBatchSize.path, problem: "is larger than \(Self.maxQueueSize.path)",
        remedy: "write \(queueSize) at most")
    }
    guard let endpoint = traces.endpoint ?? all.endpoint?.appending("v1/traces"),
      exporter == .otlp, let name, let attributes, let sampler, let ratio, let scheduleDelay, let queueSize,
      let batchSize, let timeout = traces.timeout ?? all.timeout
    else { return nil }
    self.init(
      endpoint: endpoint, endpointSetting: (traces.endpoint == nil ? Self.all : Self.traces).endpoint.path,
      certificate: traces.certificate ?? all.certificate,
      certificateSetting: (traces.certificate == nil ? Self.all : Self.traces).certificate.path,
      headers: traces.headers ?? all.headers ?? [], timeout: .milliseconds(timeout),
      sampler: sampler.sampler(ratio: ratio), scheduleDelay: .milliseconds(scheduleDelay), queueSize: queueSize,
      batchSize: min(batchSize, queueSize),
      // OTEL_SERVICE_NAME has precedence over the attribute of the same name.
      attributes: Self.resource(name, isNamed: reader.isSet(Self.serviceName.path), attributes))
  }

  private static func resource(
    _ name: String, isNamed: Bool, _ attributes: [Settings.ResourceAttribute]
  ) -> [Settings.ResourceAttribute] {
    if !isNamed, attributes.contains(where: { $0.key == serviceKey }) { return attributes }
    return [Settings.ResourceAttribute(key: serviceKey, value: name)] + attributes.filter { $0.key != serviceKey }
  }

  private static let serviceKey = "service.name"

  /// A warning if the spans go to another machine in clear. It is no error, because spans contain no secrets, and many
  /// clusters have a collector without TLS.
  var plaintextWarning: String? {
    let origin = endpoint.origin
    guard !origin.isSecure, !origin.isLoopback else { return nil }
    let secret = headers.isEmpty ? "" : ", and the headers with them"
    return """
      \(endpointSetting) is not https, so the spans travel to \(origin) in clear\(secret). Write https://, or send \
      them to a collector on this machine.
      """
  }
}

// MARK: The way to the collector

extension Settings.SpanExport {
  /// The settings of the way to the collector, which OpenTelemetry has twice: for all signals, and for traces, which
  /// have precedence.
  struct Exporter: Sendable {
    let endpoint: Setting<ServiceURL>
    let `protocol`: Setting<ProtocolName>
    let headers: Setting<[Header]>
    let timeout: Setting<Int>
    let certificate: Setting<String>

    var known: [any SettingRow] { [endpoint, `protocol`, headers, timeout, certificate] }

    func read(
      _ reader: inout SettingsReader
    ) -> (endpoint: ServiceURL?, headers: [Header]?, timeout: Int?, certificate: String?) {
      _ = reader.read(`protocol`)
      return (reader.read(endpoint), reader.read(headers), reader.read(timeout), reader.read(certificate))
    }
  }

  static let all = Exporter(
    endpoint: Setting(
      "otel.exporter.otlp.endpoint", .collectorURL, example: #""http://localhost:4318""#,
      fixed: .presence(of: \.spanExport).and(.of(\.spanExport, \.endpoint)),
      "The base URL of a collector; the server appends `/v1/traces`. Without a URL, it exports nothing."),
    protocol: Setting(
      "otel.exporter.otlp.protocol", SettingType<ProtocolName>.word, default: .httpJSON,
      "The only protocol that the server speaks. Collectors take it on the same port as `http/protobuf`."),
    headers: Setting(
      "otel.exporter.otlp.headers", .exportHeaders, isSecret: true, example: #""x-api-key=secret""#,
      fixed: .of(\.spanExport, \.headers),
      "Fields for each request to the collector: `name=value`, separated by commas, with percent-encoding."),
    timeout: Setting(
      "otel.exporter.otlp.timeout", .integer(1...600_000), default: 10_000, fixed: .of(\.spanExport, \.timeout),
      "How many milliseconds a batch may take, retries included. Then the server drops it."),
    certificate: Setting(
      "otel.exporter.otlp.certificate", .path, example: #""collector-ca.pem""#,
      "PEM, the CAs that the server trusts for the collector. Default: the system's store."))

  static let traces = Exporter(
    endpoint: Setting(
      "otel.exporter.otlp.traces.endpoint", .collectorURL, example: #""http://localhost:4318/v1/traces""#,
      fixed: .presence(of: \.spanExport).and(.of(\.spanExport, \.endpoint)),
      "The whole URL for spans, in place of the base URL."),
    protocol: Setting(
      "otel.exporter.otlp.traces.protocol", SettingType<ProtocolName>.word, example: #""http/json""#,
      "As `otel.exporter.otlp.protocol`."),
    headers: Setting(
      "otel.exporter.otlp.traces.headers", .exportHeaders, isSecret: true, example: #""x-api-key=secret""#,
      fixed: .of(\.spanExport, \.headers),
      "In place of `otel.exporter.otlp.headers`."),
    timeout: Setting(
      "otel.exporter.otlp.traces.timeout", .integer(1...600_000), example: "10000", fixed: .of(\.spanExport, \.timeout),
      "In place of `otel.exporter.otlp.timeout`."),
    certificate: Setting(
      "otel.exporter.otlp.traces.certificate", .path, example: #""collector-ca.pem""#,
      "In place of `otel.exporter.otlp.certificate`."))
}
