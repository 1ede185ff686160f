import Bytes
import HTTPMessages
import JSON
package import Tracing

extension Settings {
  /// The export of spans by OpenTelemetry's protocol. The variables of these settings are OpenTelemetry's own.
  package struct SpanExport: Sendable, Equatable {
    package struct Pair: Sendable, Equatable {
      package let key: String
      package let value: String
    }

    package var endpoint: ServiceURL
    let endpointSetting: String
    /// Nil for the system's store.
    package let certificate: String?
    package let certificateSetting: String
    /// The fields of each request to the collector: tokens (RFC 9110 §5.6.2), with visible ASCII that may be a secret.
    package var headers: [Pair]
    package var timeout: Duration
    package var sampler: Sampler
    package var scheduleDelay: Duration
    package var queueSize: Int
    package var batchSize: Int
    /// The attributes of this process in the export, `service.name` first.
    package var attributes: [Pair]
  }
}

extension Settings.SpanExport {
  enum SamplerName: String, CaseIterable {
    case alwaysOn = "always_on"
    case alwaysOff = "always_off"
    case ratio = "traceidratio"
    case parentBasedAlwaysOn = "parentbased_always_on"
    case parentBasedAlwaysOff = "parentbased_always_off"
    case parentBasedRatio = "parentbased_traceidratio"

    func sampler(ratio: Double) -> Sampler {
      let isParentBased = rawValue.hasPrefix("parentbased_")
      return switch self {
      case .alwaysOn, .parentBasedAlwaysOn: Sampler(.always, isParentBased: isParentBased)
      case .alwaysOff, .parentBasedAlwaysOff: Sampler(.never, isParentBased: isParentBased)
      case .ratio, .parentBasedRatio: Sampler(.ratio(ratio), isParentBased: isParentBased)
      }
    }
  }

  enum ExporterName: String, CaseIterable {
    case otlp, none
  }

  /// The values of OTEL_EXPORTER_OTLP_PROTOCOL. The server speaks the first one only.
  enum ProtocolName: String {
    case httpJSON = "http/json"
    case httpProtobuf = "http/protobuf"
    case grpc
  }

  static let place = SectionPlace(\.spanExport)

  static let isDisabled = Setting(
    "otel.sdk.disabled", .openTelemetryBool, default: false, fixed: .presence(of: \.spanExport),
    "Whether the server exports no spans. Then it ignores all other settings of `otel`.")
  static let serviceName = Setting(
    "otel.service.name", .label("write a name such as \"musickit-token-server\""), default: "musickit-token-server",
    fixed: place.fixed(\.attributes), "The name of the service in the exported spans.")
  static let resourceAttributes = Setting(
    "otel.resource.attributes", .keyValueList, example: #""deployment.environment.name=production""#,
    fixed: place.fixed(\.attributes),
    "More attributes of the service: `key=value`, separated by commas, with percent-encoding.")
  static let exporter = Setting(
    "otel.traces.exporter", SettingType<ExporterName>.word, default: .otlp, fixed: .presence(of: \.spanExport),
    "`none` turns the export off.")
  static let sampler = Setting(
    "otel.traces.sampler", SettingType<SamplerName>.word, default: .parentBasedAlwaysOn, fixed: place.fixed(\.sampler),
    "Which requests have [spans](logs.md#tracing).")
  static let samplerArgument = Setting(
    "otel.traces.samplerArg", .number(0...1, remedy: "write a part of all traces such as 0.1"), default: 1,
    fixed: place.fixed(\.sampler), "The part of all traces for the samplers with a ratio.")
  static let scheduleDelay = Setting(
    "otel.bsp.scheduleDelay", .wholeMilliseconds(1...3_600_000), default: .seconds(5),
    fixed: place.fixed(\.scheduleDelay), "How many milliseconds a span waits at most before the server sends it.")
  static let maxQueueSize = Setting(
    "otel.bsp.maxQueueSize", .integer(1...16_384), default: 2048, fixed: place.fixed(\.queueSize),
    "The most spans that wait. Further ones are dropped and counted.")
  static let maxBatchSize = Setting(
    "otel.bsp.maxExportBatchSize", .integer(1...2048), default: 512, fixed: place.fixed(\.batchSize),
    "The most spans in one request to the collector.")

  static let known: [any SettingRow] =
    [isDisabled, serviceName, resourceAttributes, exporter, sampler, samplerArgument, scheduleDelay, maxQueueSize]
    + [maxBatchSize] + all.known + traces.known

  init?(_ reader: inout SettingsReader) {
    guard let isDisabled = reader.read(Self.isDisabled), !isDisabled else { return nil }
    let exporter = reader.read(Self.exporter)
    let name = reader.read(Self.serviceName)
    let attributes = reader.read(Self.resourceAttributes) ?? []
    let sampler = reader.read(Self.sampler)
    let ratio = reader.read(Self.samplerArgument)
    let scheduleDelay = reader.read(Self.scheduleDelay)
    let queueSize = reader.read(Self.maxQueueSize)
    let batchSize = reader.read(Self.maxBatchSize)
    func first<Value>(_ setting: KeyPath<Exporter, Setting<Value>>) -> (value: Value?, path: String) {
      let (own, all) = (Self.traces[keyPath: setting], Self.all[keyPath: setting])
      let (ownValue, value) = (reader.read(own), reader.read(all))
      return ownValue == nil ? (value, all.path) : (ownValue, own.path)
    }
    let (url, endpointSetting) = first(\.endpoint)
    let (spoken, protocolSetting) = first(\.protocol)
    let headers = first(\.headers).value ?? []
    let timeout = first(\.timeout).value
    let (certificate, certificateSetting) = first(\.certificate)
    // Kubernetes operators set a protocol for all programs, also for those that export nothing.
    let hasCollector = [Self.all.endpoint.path, Self.traces.endpoint.path].contains(where: reader.isSet)
    if let spoken, spoken != .httpJSON, exporter == .otlp, hasCollector {
      reader.reject(
        protocolSetting, "is \(quoted(spoken.rawValue)), which the server does not speak",
        remedy: "write \"http/json\"")
    }
    if let queueSize, let batchSize, batchSize > queueSize, reader.isSet(Self.maxBatchSize.path) {
      reader.reject(
        Self.maxBatchSize.path, "is larger than \(Self.maxQueueSize.path)", remedy: "write \(queueSize) at most")
    }
    guard let url, exporter == .otlp, let name, let sampler, let ratio, let scheduleDelay, let queueSize, let batchSize,
      let timeout
    else { return nil }
    self.init(
      endpoint: endpointSetting == Self.all.endpoint.path ? url.appending("v1/traces") : url,
      endpointSetting: endpointSetting, certificate: certificate, certificateSetting: certificateSetting,
      headers: headers, timeout: timeout, sampler: sampler.sampler(ratio: ratio), scheduleDelay: scheduleDelay,
      queueSize: queueSize, batchSize: min(batchSize, queueSize),
      // OTEL_SERVICE_NAME has precedence over the attribute of the same name.
      attributes: Self.resource(name, isNamed: reader.isSet(Self.serviceName.path), attributes))
  }

  private static func resource(_ name: String, isNamed: Bool, _ attributes: [Pair]) -> [Pair] {
    if !isNamed, attributes.contains(where: { $0.key == serviceKey }) { return attributes }
    return [Pair(key: serviceKey, value: name)] + attributes.filter { $0.key != serviceKey }
  }

  private static let serviceKey = "service.name"

  /// No error, because spans contain no secrets, and many clusters have a collector without TLS.
  var plaintextWarning: String? {
    let origin = endpoint.origin
    guard !origin.isSecure, !origin.isLoopback else { return nil }
    let secret = headers.isEmpty ? "" : ", and the headers with them"
    return "\(endpointSetting) is not https, so the spans travel to \(origin) in clear\(secret). Write https://, or "
      + "send them to a collector on this machine."
  }

  /// The way to the collector, which OpenTelemetry has twice: for all signals, and for traces, which have precedence.
  struct Exporter: Sendable {
    let endpoint: Setting<ServiceURL>
    let `protocol`: Setting<ProtocolName>
    let headers: Setting<[Pair]>
    let timeout: Setting<Duration>
    let certificate: Setting<String>

    var known: [any SettingRow] { [endpoint, `protocol`, headers, timeout, certificate] }
  }

  static let all = Exporter(
    endpoint: Setting(
      "otel.exporter.otlp.endpoint", .collectorURL, example: #""http://localhost:4318""#,
      fixed: .presence(of: \.spanExport).and(place.fixed(\.endpoint)),
      "The base URL of a collector; the server appends `/v1/traces`. Without a URL, it exports nothing."),
    protocol: Setting(
      "otel.exporter.otlp.protocol", .exportProtocol, default: .httpJSON,
      "The only protocol that the server speaks. Collectors take it on the same port as `http/protobuf`."),
    headers: Setting(
      "otel.exporter.otlp.headers", .exportHeaders, isSecret: true, example: #""x-api-key=secret""#,
      fixed: place.fixed(\.headers),
      "Fields for each request to the collector: `name=value`, separated by commas, with percent-encoding."),
    timeout: Setting(
      "otel.exporter.otlp.timeout", .wholeMilliseconds(1...600_000), default: .seconds(10),
      fixed: place.fixed(\.timeout),
      "How many milliseconds a batch may take, retries included. Then the server drops it."),
    certificate: Setting(
      "otel.exporter.otlp.certificate", .path, example: #""collector-ca.pem""#,
      "PEM, the CAs that the server trusts for the collector. Default: the system's store."))

  static let traces = Exporter(
    endpoint: Setting(
      "otel.exporter.otlp.traces.endpoint", .collectorURL, example: #""http://localhost:4318/v1/traces""#,
      fixed: .presence(of: \.spanExport).and(place.fixed(\.endpoint)),
      "The whole URL for spans, in place of the base URL."),
    protocol: Setting(
      "otel.exporter.otlp.traces.protocol", .exportProtocol, example: #""http/json""#,
      "As `otel.exporter.otlp.protocol`."),
    headers: Setting(
      "otel.exporter.otlp.traces.headers", .exportHeaders, isSecret: true, example: #""x-api-key=secret""#,
      fixed: place.fixed(\.headers), "In place of `otel.exporter.otlp.headers`."),
    timeout: Setting(
      "otel.exporter.otlp.traces.timeout", .wholeMilliseconds(1...600_000), example: "10000",
      fixed: place.fixed(\.timeout), "In place of `otel.exporter.otlp.timeout`."),
    certificate: Setting(
      "otel.exporter.otlp.traces.certificate", .path, example: #""collector-ca.pem""#,
      "In place of `otel.exporter.otlp.certificate`."))
}

extension SettingType where Value == Settings.SpanExport.ProtocolName {
  static let exportProtocol = text(
    "a protocol of OpenTelemetry", remedy: "write \"http/json\"", values: Value.httpJSON.rawValue,
    write: { "\"\($0.rawValue)\"" }, make: { Value(rawValue: $0) })
}

extension SettingType where Value == ServiceURL {
  static let collectorURL = text(
    "the URL of a collector",
    remedy: "write an http or https URL without credentials, such as \"http://localhost:4318\"", quote: quotedURL,
    make: { ServiceURL(ofCollector: $0) })
}

extension SettingType where Value == Bool {
  /// A boolean, in a variable in any case of letters, as OpenTelemetry's specification of variables requires.
  static let openTelemetryBool = SettingType(values: bool.values, write: bool.write) {
    (content, _) throws(InvalidValue) in
    guard case .text(let text) = content, let value = Bool(text.lowercased()) else {
      return try bool.parse(content, nil)
    }
    return value
  }
}

extension SettingType where Value == [Settings.SpanExport.Pair] {
  /// `key=value` pairs, in the format of `OTEL_RESOURCE_ATTRIBUTES`.
  static let keyValueList = text(
    "a list of key=value, or has more than 64 of them",
    remedy: "write key=value, separated by commas, with other characters percent-encoded", quote: nil,
    write: { list in "\"" + list.map { "\($0.key)=\($0.value)" }.joined(separator: ",") + "\"" },
    make: { pairs(in: $0) })

  /// Header fields, in the format of `OTEL_EXPORTER_OTLP_HEADERS`.
  static let exportHeaders = string(
    "write name=value, separated by commas, with other characters percent-encoded",
    // What is written here only tells whether the setting has changed, because it is a secret.
    write: { list in JSONValue.strings(list.map { "\($0.key): \($0.value)" }).ascii }
  ) { (text, remedy) throws(InvalidValue) in
    // A name is a token (RFC 9110 §5.6.2). No pair has an empty one.
    guard let pairs = pairs(in: text),
      pairs.allSatisfy({ pair in
        pair.key.utf8.allSatisfy { $0.isUnreservedInURI || "!#$%&'*+^`|".utf8.contains($0) }
          && pair.value.utf8.allSatisfy { (0x20...0x7E).contains($0) }
      })
    else { throw InvalidValue("is not a list of name=value", remedy: remedy) }
    let own = ["host", "connection", "content-length", "content-type", "content-encoding", "transfer-encoding", "te"]
    guard !pairs.contains(where: { own.contains($0.key.lowercased()) }) else {
      throw InvalidValue("has a field that the server writes itself", remedy: "leave it out")
    }
    return pairs
  }
}

/// Parses pairs of `key=value` in the format of W3C Baggage, without properties. Returns nil if the text is malformed.
private func pairs(in text: String) -> [Settings.SpanExport.Pair]? {
  guard text.utf8.count <= 8192 else { return nil }
  let parts = text.utf8.split(separator: UInt8(ascii: ","))
  guard parts.count <= 64 else { return nil }
  return parts.map { part in
    let pair = part.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
    guard pair.count == 2, let key = decoded(pair[0]), let value = decoded(pair[1]), !key.isEmpty else { return nil }
    return Settings.SpanExport.Pair(key: key, value: value)
  }.whole()
}

private func decoded(_ part: Substring.UTF8View) -> String? {
  let trimmed = part.drop { $0 == 0x20 || $0 == 0x09 }.reversed().drop { $0 == 0x20 || $0 == 0x09 }.reversed()
  guard let bytes = PercentEncoding.decode(Array(trimmed).span), !bytes.contains(where: { $0 < 0x20 || $0 == 0x7F })
  else { return nil }
  return String(validating: bytes, as: UTF8.self)
}
