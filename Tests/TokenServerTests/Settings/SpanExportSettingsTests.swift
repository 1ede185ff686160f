import Testing
import Tracing

@testable import ServerSettings

@Suite("The settings of OpenTelemetry")
struct SpanExportSettingsTests {
  private static func load(_ environment: [String: String]) throws -> Settings.SpanExport? {
    try SettingsFixture().load(environment).settings.spanExport
  }

  @Test("turn the export on by the URL of a collector alone, with OpenTelemetry's defaults")
  func defaults() throws {
    #expect(try Self.load([:]) == nil)
    let export = try #require(try Self.load(["OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"]))
    #expect("\(export.endpoint)" == "http://localhost:4318/v1/traces")
    #expect(export.timeout == .seconds(10) && export.scheduleDelay == .seconds(5))
    #expect(export.queueSize == 2048 && export.batchSize == 512)
    #expect(export.sampler == Sampler(.always, isParentBased: true))
    #expect(export.headers.isEmpty && export.certificate == nil)
    #expect(export.attributes.map { "\($0.key)=\($0.value)" } == ["service.name=musickit-token-server"])
  }

  @Test(
    "append the path to the base URL, and take the URL for traces as it is",
    arguments: [
      (["OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"], "http://c/v1/traces"),
      (["OTEL_EXPORTER_OTLP_ENDPOINT": "https://c/base/"], "https://c/base/v1/traces"),
      (["OTEL_EXPORTER_OTLP_ENDPOINT": "https://c/base"], "https://c/base/v1/traces"),
      (["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://[::1]:4318"], "http://[::1]:4318/"),
      (["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/a", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://d"], "http://c/a"),
    ])
  func endpoint(_ environment: [String: String], _ expected: String) throws {
    #expect(try Self.load(environment).map { "\($0.endpoint)" } == expected)
  }

  @Test(
    "refuse other URLs, and never quote one with credentials",
    arguments: [
      "localhost:4318", "grpc://c:4317", "http://", "http:///v1", "http://user:hidden@c", "http://c/?token=hidden",
      "http://c/#a", "http://c d", "unix:/run/c.sock",
    ])
  func refused(_ url: String) throws {
    let error = #expect(throws: InvalidSettings.self) { try Self.load(["OTEL_EXPORTER_OTLP_ENDPOINT": url]) }
    #expect(error?.errors.map(\.path) == ["otel.exporter.otlp.endpoint"])
    #expect(error?.description.contains("hidden") == false)
  }

  @Test("read headers and attributes with percent-encoding, and let the settings for traces win")
  func lists() throws {
    let export = try #require(
      try Self.load([
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "a=1",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": " authorization = Bearer%20x%3D , b=2=3,",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "250", "OTEL_EXPORTER_OTLP_CERTIFICATE": "a.pem",
        "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE": "b.pem",
        "OTEL_RESOURCE_ATTRIBUTES": "service.name=other,k=%C3%A9", "OTEL_TRACES_SAMPLER": "traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": "0.25", "OTEL_BSP_MAX_QUEUE_SIZE": "10",
      ]))
    #expect(export.headers.map { "\($0.key): \($0.value)" } == ["authorization: Bearer x=", "b: 2=3"])
    #expect(export.timeout == .milliseconds(250))
    #expect(export.certificate == "b.pem" && export.certificateSetting == "otel.exporter.otlp.traces.certificate")
    #expect(export.attributes.map { "\($0.key)=\($0.value)" } == ["service.name=other", "k=é"])
    #expect(export.sampler == Sampler(.ratio(0.25), isParentBased: false))
    #expect(export.batchSize == 10, "a batch is never larger than the queue")
  }

  @Test(
    "refuse a header that breaks a request, without its value",
    arguments: [
      "hidden", "a b=hidden", "=hidden", "a=hidden%0d%0ab", "a=%zz", "Host=hidden", "content-length=1", "a=é",
    ])
  func header(_ headers: String) throws {
    let error = #expect(throws: InvalidSettings.self) {
      try Self.load(["OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_HEADERS": headers])
    }
    #expect(error?.errors.map(\.path) == ["otel.exporter.otlp.headers"])
    #expect(error?.description.contains("hidden") == false)
  }

  @Test(
    "ignore all others if OpenTelemetry is disabled, in any case of letters",
    arguments: ["true", "TRUE", "True", "false", "FALSE", "yes", "1"])
  func disabled(_ value: String) throws {
    let environment = ["OTEL_SDK_DISABLED": value, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost"]
    switch value.lowercased() {
    case "true":
      let wrong = ["OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_TRACES_SAMPLER_ARG": "x"]
      #expect(try Self.load(environment.merging(wrong) { $1 }) == nil)
    case "false": #expect(try Self.load(environment) != nil)
    default:
      let error = #expect(throws: InvalidSettings.self) { try Self.load(environment) }
      #expect(error?.errors.map(\.problem) == ["\"\(value)\" is neither true nor false"])
    }
  }

  @Test("warn of spans that travel to another machine in clear, and name the setting")
  func plaintext() throws {
    func warnings(_ environment: [String: String]) throws -> [String] {
      try SettingsFixture().load(environment).draft.warnings
    }
    let (all, traces) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    for url in ["http://localhost:4318", "http://127.0.0.1", "http://[::1]:4318", "https://collector.example"] {
      #expect(try warnings([all: url]).isEmpty, "\(url)")
    }
    #expect(try warnings([all: "http://collector", "OTEL_SDK_DISABLED": "true"]).isEmpty)
    let fix = "Write https://, or send them to a collector on this machine."
    #expect(
      try warnings([all: "http://collector:4318"]) == [
        "otel.exporter.otlp.endpoint is not https, so the spans travel to http://collector:4318 in clear. \(fix)"
      ])
    #expect(
      try warnings([all: "https://a", traces: "http://192.0.2.1/", "OTEL_EXPORTER_OTLP_HEADERS": "k=hidden"]) == [
        "otel.exporter.otlp.traces.endpoint is not https, so the spans travel to http://192.0.2.1 in clear, and the "
          + "headers with them. \(fix)"
      ])
  }

  @Test("refuse a batch larger than the queue, with or without a collector")
  func conflicts() throws {
    let batch = ["OTEL_BSP_MAX_QUEUE_SIZE": "10", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "11"]
    #expect(throws: InvalidSettings.self) { try Self.load(batch) }
  }

  @Test(
    "refuse any protocol except JSON with which spans would be exported",
    arguments: [
      (["OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"], "otel.exporter.otlp.protocol"),
      (["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"], "otel.exporter.otlp.traces.protocol"),
      (["OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"], nil),
      (["OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_TRACES_EXPORTER": "none"], nil),
      (["OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_ENDPOINT": ""], nil),
    ] as [([String: String], String?)])
  func protocols(_ environment: [String: String], _ path: String?) throws {
    let fixture = try SettingsFixture()
    do throws(InvalidSettings) {
      _ = try fixture.load(
        ["OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"].merging(environment) { $1 })
      #expect(path == nil)
    } catch {
      #expect(error.errors.map(\.path) == [path])
    }
  }
}
