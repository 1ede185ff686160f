import Glibc
import JSON
import TestSupport
import Testing

/// The export of spans to a collector over real sockets, judged by OpenTelemetry's own messages for Python.
@Suite("Exported spans")
struct SpanExportTests {
  private static let trace = "0af7651916cd43dd8448eb211c80319c"
  private static let song = "/v1/catalog/us/songs/1200868616"
  private static let template = "/v1/catalog/{storefront}/{type}/{id}"

  private static func parent(_ flags: String) -> String { "traceparent: 00-\(trace)-b7ad6b7169203331-\(flags)" }

  @Test("are one of the server for each request, and one for each attempt at Apple as its children")
  func relations() throws {
    let ground = try Ground()
    let (emulator, collector) = (try Emulator(ground), try SpanCollector())
    let settings = [
      "ACCESS_CLIENTS": "[{ id: 'app', catalog: true, origins: ['https://a.example'] }]",
      "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=a%20test", "OTEL_SERVICE_NAME": "music",
      "OTEL_EXPORTER_OTLP_HEADERS": "x-api-key=col%6Cector-secret",
    ]
    let server = try ground.serve(
      emulator.settings.merging(collector.settings) { $1 }.merging(settings) { $1 })
    try emulator.fail("empty-401", count: 1)
    let began = UInt64(time(nil)) * 1_000_000_000
    let response = try server.request(
      "\(Self.song)?l=en-GB", "-H", Self.parent("01"), "-H", "Origin: https://a.example")
    #expect(response.status == 200)
    let spans = try collector.spans(3)
    #expect(spans.count == 3)
    #expect(spans.allSatisfy { $0.trace == Self.trace })
    #expect(Set(spans.map(\.span)).count == 3)
    let root = try #require(spans.first { $0.isServer })
    #expect(root.parent == "b7ad6b7169203331" && root.name == "GET \(Self.template)" && !root.hasFailed)
    #expect(root.flags == 0x301)
    #expect(root["http.request.method"] == "GET" && root["http.route"] == Self.template)
    #expect(root["http.response.status_code"] == "200" && root["url.scheme"] == "http")
    #expect(root["network.protocol.version"] == "1.1")
    let attempts = spans.filter { !$0.isServer }.sorted { $0.start < $1.start }
    #expect(attempts.allSatisfy { $0.parent == root.span && $0.flags == 0x101 })
    #expect(attempts.map { $0["http.response.status_code"] } == ["401", "200"])
    #expect(attempts.map { $0["error.type"] } == ["401", nil])
    #expect(attempts.map(\.hasFailed) == [true, false])
    #expect(attempts.map { $0["http.request.resend_count"] } == [nil, "1"])
    #expect(attempts.allSatisfy { $0["server.address"] == "127.0.0.1" && $0["musickit.client"] == "app" })
    #expect(attempts.allSatisfy { $0["url.template"] == Self.template && $0.name == "GET \(Self.template)" })
    #expect(spans.allSatisfy { $0.start <= $0.end && $0.start >= began && $0.end <= began + 600_000_000_000 })
    #expect(try emulator.requests().map { $0["traceparent"] } == attempts.map { "00-\(Self.trace)-\($0.span)-01" })
    let state = try collector.state()
    #expect(state["path"]?.string == "/v1/traces")
    #expect(state["fields"]?["x-api-key"]?.string == "collector-secret")
    #expect(state["resource"]?["service.name"]?.string == "music")
    #expect(state["resource"]?["deployment.environment.name"]?.string == "a test")
    #expect(state["resource"]?["service.version"]?.string == "0.1.0")
    #expect(state["resource"]?["host.name"]?.string?.isEmpty == false)
    let id = try #require(state["resource"]?["service.instance.id"]?.string)
    #expect(id.wholeMatch(of: /[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/) != nil, "\(id)")
    let text = try collector.server.admin("/").text
    for secret in ["eyJ", "en-GB", "1200868616"] { #expect(!text.contains(secret), "\(text)") }
    server.stop()
    #expect(!server.log.contains("collector-secret"))
    #expect(server.accessLines.map { $0["span_id"]?.string } == [root.span])
  }

  @Test("state the version of the request, and none if the server does not support it or could not read it")
  func version() throws {
    let collector = try SpanCollector()
    let server = try Ground().serve(collector.settings)
    for (line, status) in [
      ("GET /token HTTP/1.0", 200), ("GET /token HTTP/1.1", 200), ("GET /token HTTP/3.0", 505), ("nonsense", 400),
      ("GET http://u@a/ HTTP/1.1", 400),
    ] {
      let connection = try server.connect()
      connection.send("\(line)\r\nHost: a\r\nConnection: close\r\n\r\n")
      #expect(try connection.response().status == status)
    }
    let spans = try collector.spans(5)
    #expect(spans.map { $0["network.protocol.version"] } == ["1.0", "1.1", nil, nil, "1.1"])
  }

  @Test("name the failure of an attempt that got no response")
  func failure() throws {
    let ground = try Ground()
    let collector = try SpanCollector()
    let settings = ["ACCESS_ANONYMOUS": "{ catalog: true }", "CATALOG_UPSTREAM": "http://127.0.0.1:1"]
    let server = try ground.serve(collector.settings.merging(settings) { $1 })
    #expect(try server.request(Self.song).status == 502)
    // Attempts of the same request may come in an earlier batch.
    server.stop()
    let spans = try collector.spans()
    let root = try #require(spans.first { $0.isServer })
    #expect(root.hasFailed && root["error.type"] == "502" && root.parent.isEmpty && root.flags == 0x101)
    let attempts = spans.filter { !$0.isServer }
    #expect(!attempts.isEmpty)
    #expect(attempts.allSatisfy { $0["error.type"] == "connection_refused" && $0.hasFailed && $0.parent == root.span })
    #expect(attempts.allSatisfy { $0["http.response.status_code"] == nil })
  }

  @Test(
    "obey the sampler, and the flag of callers as far as it costs nothing, or a trusted proxy sends it",
    arguments: [
      ("parentbased_always_on", "127.0.0.1", [true, true, false]),
      ("parentbased_always_on", "127.0.0.2", [true, true, false]),
      ("parentbased_always_off", "127.0.0.1", [false, true, false]),
      ("parentbased_always_off", "127.0.0.2", [false, false, false]),
      ("always_off", "127.0.0.1", [false, false, false]), ("always_on", "127.0.0.2", [true, true, true]),
    ])
  func sampling(_ sampler: String, _ address: String, _ expected: [Bool]) throws {
    let collector = try SpanCollector()
    let settings = ["OTEL_TRACES_SAMPLER": sampler, "SERVER_TRUSTED_PROXIES": "['127.0.0.1']"]
    let server = try Ground().serve(collector.settings.merging(settings) { $1 })
    let fields = ["Accept: */*", Self.parent("01"), Self.parent("00")]
    for field in fields { #expect(try server.request("/token", "--interface", address, "-H", field).status == 200) }
    server.stop()
    let lines = server.accessLines.compactMap { $0["span_id"]?.string }
    let exported = Set(try collector.spans().map(\.span))
    #expect(lines.map { exported.contains($0) } == expected)
  }

  @Test("go out over TLS to a collector of a private CA, at the URL for traces as it is")
  func secure() throws {
    let ground = try UpstreamGround()
    let collector = try SpanCollector(certificate: ground.certificate)
    let server = try ground.ground.serve([
      "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "\(collector.server.url)/custom/path", "OTEL_BSP_SCHEDULE_DELAY": "50",
      "OTEL_EXPORTER_OTLP_CERTIFICATE": ground.ground.certificateFile,
    ])
    #expect(try server.request("/token").status == 200)
    #expect(try collector.spans(1).map(\.name) == ["GET /token"])
    #expect(try collector.state()["path"]?.string == "/custom/path")
  }

  @Test("are flushed at the end of the process, with the last request of the drain")
  func flush() throws {
    let collector = try SpanCollector()
    let server = try Ground().serve(collector.settings.merging(["OTEL_BSP_SCHEDULE_DELAY": "3600000"]) { $1 })
    for _ in 0..<3 { #expect(try server.request("/token").status == 200) }
    #expect(try collector.attempts() == 0)
    #expect(server.stop() == 0)
    #expect(try collector.spans(3).count == 3)
    #expect(try collector.attempts() == 1, "one batch")
  }

  @Test("go out as soon as a batch is complete")
  func batches() throws {
    let collector = try SpanCollector()
    let settings = ["OTEL_BSP_SCHEDULE_DELAY": "3600000", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2"]
    let server = try Ground().serve(collector.settings.merging(settings) { $1 })
    for _ in 0..<4 { #expect(try server.request("/token").status == 200) }
    #expect(try collector.spans(4).count == 4)
    #expect(try collector.attempts() >= 2)
    try eventually("the spans count") { try MetricsPage(of: server)["musickit_spans_exported_total"] == 4 }
  }

  @Test("are not made without a collector, or if OpenTelemetry is disabled")
  func disabled() throws {
    let collector = try SpanCollector()
    for settings in [
      ["OTEL_SDK_DISABLED": "true"], ["OTEL_TRACES_EXPORTER": "none"], ["OTEL_EXPORTER_OTLP_ENDPOINT": ""],
    ] {
      let server = try Ground().serve(collector.settings.merging(settings) { $1 })
      #expect(try server.request("/token").status == 200)
      #expect(!(try server.admin("/metrics").text.contains("musickit_spans")))
      #expect(server.stop() == 0)
    }
    #expect(try collector.attempts() == 0)
  }
}

/// Collectors that fail: no request of a caller notices, and every lost span counts.
@Suite("A collector of spans")
struct FailingCollectorTests {
  /// A dropped span has one of these reasons.
  private static func dropped(_ server: RunningServer, _ reason: String) throws -> Double {
    try MetricsPage(of: server)["musickit_spans_dropped_total", ["reason": reason]] ?? 0
  }

  @Test("that hangs delays no request and not the end, and spans beyond the queue are dropped and counted")
  func hangs() throws {
    let collector = try SpanCollector()
    try collector.behave("hang")
    let settings = [
      "OTEL_BSP_MAX_QUEUE_SIZE": "4", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2", "OTEL_EXPORTER_OTLP_TIMEOUT": "600000",
    ]
    let server = try Ground().serve(collector.settings.merging(settings) { $1 })
    #expect(try server.request("/token").status == 200)
    try eventually("the collector hangs") { try collector.attempts() == 1 }
    for _ in 0..<10 { #expect(try server.request("/token").status == 200) }
    // One or two are in the request that hangs, four wait.
    #expect(try Self.dropped(server, "queue_full") >= 5)
    #expect(try MetricsPage(of: server)["musickit_spans_exported_total"] == 0)
    #expect(server.stop() == 0)
    #expect(server.accessLines.count >= 11)
  }

  @Test(
    "that fails loses a batch, which the log says once, and its recovery once",
    arguments: ["close", "garbage", "redirect", "status-400", "status-500", "status-503", "hang"])
  func fails(_ behaviour: String) throws {
    let collector = try SpanCollector()
    try collector.behave(behaviour)
    let server = try Ground().serve(collector.settings.merging(["OTEL_EXPORTER_OTLP_TIMEOUT": "700"]) { $1 })
    for lost in 1...2 {
      #expect(try server.request("/token").status == 200)
      try eventually("the batch is lost") { try Self.dropped(server, "failed") == Double(lost) }
    }
    try collector.behave("ok")
    #expect(try server.request("/token").status == 200)
    #expect(try collector.spans(1).count == 1)
    try eventually("the span counts") { try MetricsPage(of: server)["musickit_spans_exported_total"] == 1 }
    #expect(server.stop() == 0)
    let lines = server.logLines.compactMap { $0 }.filter { $0["message"]?.string?.contains("spans") == true }
    #expect(lines.map { $0["level"]?.string } == ["warning", "notice"], "\(server.log)")
    #expect(lines.last?["spans.dropped"]?.string == "2")
    #expect(try collector.state()["defects"] == .array([]))
  }

  @Test("that is not there costs the spans only, until it is")
  func refuses() throws {
    let port = UpstreamGround.fixedPort
    let settings = [
      "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:\(port)", "OTEL_BSP_SCHEDULE_DELAY": "50",
      "OTEL_EXPORTER_OTLP_TIMEOUT": "300",
    ]
    let server = try Ground().serve(settings)
    #expect(try server.request("/token").status == 200)
    try eventually("the batch is lost") { try Self.dropped(server, "failed") == 1 }
    let collector = try SpanCollector(port: port)
    try eventually("a span arrives") {
      #expect(try server.request("/token").status == 200)
      return try !collector.spans().isEmpty
    }
    #expect(server.stop() == 0)
  }

  @Test("that asks to wait gets the same batch once more")
  func throttles() throws {
    let collector = try SpanCollector()
    try collector.behave("throttle")
    let server = try Ground().serve(collector.settings)
    #expect(try server.request("/token").status == 200)
    #expect(try collector.spans(1).count == 1)
    #expect(try collector.attempts() == 2)
    #expect(try Self.dropped(server, "failed") == 0)
  }

  @Test("that asks to wait longer than a batch may take gets no other batch before, but the last spans at the end")
  func postpones() throws {
    let collector = try SpanCollector()
    try collector.behave("later-3600")
    let settings = [
      "OTEL_BSP_MAX_QUEUE_SIZE": "4", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2", "OTEL_EXPORTER_OTLP_TIMEOUT": "300",
    ]
    let server = try Ground().serve(collector.settings.merging(settings) { $1 })
    #expect(try server.request("/token").status == 200)
    try eventually("the batch is lost") { try Self.dropped(server, "failed") == 1 }
    for _ in 0..<10 { #expect(try server.request("/token").status == 200) }
    #expect(try Self.dropped(server, "queue_full") == 6)
    #expect(try collector.attempts() == 1)
    try collector.behave("ok")
    #expect(server.stop() == 0)
    #expect(try collector.spans(4).count == 4)
    #expect(try collector.attempts() == 3)
  }

  @Test("that asked to wait gets the later spans after that time")
  func resumes() throws {
    let collector = try SpanCollector()
    try collector.behave("later-1")
    let server = try Ground().serve(collector.settings.merging(["OTEL_EXPORTER_OTLP_TIMEOUT": "300"]) { $1 })
    #expect(try server.request("/token").status == 200)
    try eventually("the batch is lost") { try Self.dropped(server, "failed") == 1 }
    try collector.behave("ok")
    #expect(try server.request("/token").status == 200)
    #expect(try collector.spans(1).count == 1)
    #expect(server.stop() == 0)
  }

  @Test("that refuses a part of a batch, or sends more than it should, has the rest")
  func partial() throws {
    let collector = try SpanCollector()
    let server = try Ground().serve(collector.settings)
    try collector.behave("partial")
    #expect(try server.request("/token").status == 200)
    try eventually("the refusal counts") { try Self.dropped(server, "rejected") == 1 }
    try collector.behave("huge")
    #expect(try server.request("/token").status == 200)
    try eventually("the span counts") { try MetricsPage(of: server)["musickit_spans_exported_total"] == 1 }
    try collector.behave("ok")
    #expect(try server.request("/token").status == 200)
    try eventually("the span counts") { try MetricsPage(of: server)["musickit_spans_exported_total"] == 2 }
  }

  @Test("with wrong settings is an error of check-config, which does not quote its headers")
  func settings() throws {
    let ground = try Ground()
    let result = try ground.run(
      ["check-config"],
      [
        "OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        "OTEL_EXPORTER_OTLP_HEADERS": "top-secret", "OTEL_TRACES_SAMPLER": "sometimes",
        "OTEL_TRACES_SAMPLER_ARG": "2", "OTEL_BSP_MAX_QUEUE_SIZE": "x", "OTEL_EXPORTER_OTLP_TIMEOUT": "10s",
      ])
    #expect(result.status == 78)
    for variable in [
      "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_HEADERS",
      "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_EXPORTER_OTLP_TIMEOUT",
    ] {
      #expect(result.stderr.contains("(\(variable))"), "\(result.stderr)")
    }
    #expect(!result.stderr.contains("top-secret"))
    #expect(try ground.run(["check-config"], ["OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"]).status == 0)
    let plain = try ground.run(["check-config"], ["OTEL_EXPORTER_OTLP_ENDPOINT": "http://192.0.2.1:4318"])
    #expect(plain.status == 0 && plain.stderr.hasPrefix("Warning: otel.exporter.otlp.endpoint is not https"))
    let server = try ground.serve(["OTEL_EXPORTER_OTLP_ENDPOINT": "http://192.0.2.1:4318"])
    server.stop()
    #expect(server.log.contains("otel.exporter.otlp.endpoint is not https"), "\(server.log)")
    let file = try ground.run(
      ["check-config"],
      ["OTEL_EXPORTER_OTLP_ENDPOINT": "https://localhost:4318", "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere.pem"])
    #expect(file.status == 78 && file.stderr.contains("otel.exporter.otlp.certificate"), "\(file.stderr)")
  }
}
