import Glibc
import JSON
import TestSupport
import Testing

@Suite("Metrics")
struct MetricsTests {
  private static let requests = "musickit_http_requests_total"

  private static func responses(_ route: String, _ method: String, _ code: String) -> [String: String] {
    ["route": route, "method": method, "code": code]
  }

  @Test("count every public response by route, method and code, even without an access log")
  func requests() throws {
    let server = try Ground().serve(["LOG_LEVEL": "warning"])
    let tokens = [
      try server.request("/token"), try server.request("/token"), try server.request("/token?ttl=1"),
      try server.request("/token", "-I"), try server.request("/token", "-X", "DELETE"),
    ]
    _ = try server.request("/nothing")
    _ = try server.admin("/healthz")
    let page = try MetricsPage(of: server)
    _ = try page.judged()
    #expect(page[Self.requests, Self.responses("/token", "GET", "200")] == 2)
    #expect(page[Self.requests, Self.responses("/token", "GET", "400")] == 1)
    #expect(page[Self.requests, Self.responses("/token", "HEAD", "200")] == 1)
    #expect(page[Self.requests, Self.responses("/token", "DELETE", "405")] == 1)
    #expect(page[Self.requests, Self.responses("-", "GET", "404")] == 1)
    #expect(page.values(of: "route") == ["-", "/token"])
    #expect(page["musickit_http_request_duration_seconds_count", ["route": "/token"]] == 5)
    let seconds = try #require(page["musickit_http_request_duration_seconds_sum", ["route": "/token"]])
    #expect((0..<60).contains(seconds) && seconds > 0)
    let bytes = tokens.map(\.body.count).reduce(0, +)
    #expect(page["musickit_http_response_bytes_total", ["route": "/token"]] == Double(bytes))
    #expect(page["musickit_token_signatures_total"] == 1)
    #expect(page["musickit_connections_accepted_total"] == 6)
  }

  @Test("are available on the admin listener only")
  func adminOnly() throws {
    let server = try Ground().serve()
    #expect(try server.request("/metrics").status == 404)
    #expect(try server.admin("/metrics", "-I").status == 200)
    #expect(try server.admin("/metrics", "-X", "POST").status == 405)
  }

  @Test("are exactly those of docs/metrics.md")
  func complete() throws {
    let ground = try Ground()
    let others = ["OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "SHARED_URL": "redis://127.0.0.1:1"]
    let server = try ground.serve(try ground.tlsSettings().merging(others) { $1 })
    let page = try MetricsPage(of: server)
    let document = try TextFile.read("\(Repository.path)/docs/metrics.md")
    let rows = document.matches(of: /(?m)^\| `((musickit|process)_\w+)` \|/)
    #expect(try page.judged() == Set(rows.map { String($0.output.1) }))
    let left = try #require(page["musickit_tls_certificate_remaining_seconds"])
    #expect(left > 0)
  }

  @Test("describe the process")
  func process() throws {
    let server = try Ground().serve()
    let page = try MetricsPage(of: server)
    let version = String(try #require(try Program.run(["--version"]).stdout.split(separator: " ").first))
    #expect(page["musickit_build_info", ["version": version]] == 1)
    let started = try #require(page["process_start_time_seconds"])
    #expect((0...3600).contains(Double(time(nil)) - started))
    #expect(try #require(page["process_resident_memory_bytes"]) > 1_048_576)
    #expect(try #require(page["process_cpu_seconds_total"]) > 0)
    let descriptors = try #require(page["process_open_fds"])
    #expect(descriptors > 3)
    #expect(try #require(page["process_max_fds"]) >= descriptors)
  }

  @Test("have no label with client data")
  func hostile() throws {
    let ground = try Ground()
    let server = try ground.serve([
      "ACCESS_ANONYMOUS": "{ token: true, catalog: true, me: true }", "CATALOG_ME": "true",
      "CATALOG_UPSTREAM": "http://127.0.0.1:1",
    ])
    for target in [
      "/evil", "/token/evil", "/token%22evil", "/token?evil=%22", "/evil\"}", "/v1/evil", "/v1/me/evil",
      "/v1/me/library/evil/evil", "/v1/catalog/evil/songs/1", "/v1/catalog/us/evil/evil/evil",
      "/v1/catalog/us/..%2fevil",
      "/v1/catalog/us/songs/evil%0Amusickit_evil%201", "/v1/storefronts/evil/evil", "http://evil.example/evil", "evil",
    ] {
      let connection = try server.connect()
      connection.send("GET \(target) HTTP/1.1\r\nHost: evil\r\nX-Request-ID: evil\r\nConnection: close\r\n\r\n")
      #expect(try connection.receiveAll().hasPrefix("HTTP/1.1 "), "\(target)")
    }
    let connection = try server.connect()
    connection.send("EVIL /evil HTTP/1.1\r\nHost: evil\r\n\r\n")
    #expect(try connection.receiveAll().hasPrefix("HTTP/1.1 501 "))
    let page = try MetricsPage(of: server)
    _ = try page.judged()
    #expect(!page.text.lowercased().contains("evil"))
    #expect(page.values(of: "method").isSubset(of: ["GET", "OTHER", "-"]))
    #expect(
      page.values(of: "route").isSubset(of: [
        "-", "/token", "/v1/", "/v1/me/*", "/v1/me/library/*", "/v1/storefronts/*",
        "/v1/catalog/{storefront}/{type}/{id}",
        "/v1/catalog/{storefront}/{type}/{id}/{relationship}",
      ]), "\(page.values(of: "route"))")
  }

  @Test("count open, refused and failed connections")
  func connections() throws {
    let ground = try Ground()
    // One loop, which accepts connections in their order of arrival. With two loops the second could be faster.
    let server = try ground.serve(
      try ground.tlsSettings().merging(["SERVER_LIMITS_CONNECTIONS_PER_ADDRESS": "1", "SERVER_LOOPS": "1"]) { $1 })
    let first = try server.connect()
    #expect(try server.connect().isClosedByPeer())
    var page = try MetricsPage(of: server)
    #expect(page["musickit_connections_open"] == 1)
    #expect(page["musickit_connections_refused_per_address_total"] == 1)
    #expect(page["musickit_connections_refused_total"] == 0)
    #expect(page["musickit_tls_failures_total", ["cause": "not_tls"]] == 0)
    first.send("GET /token HTTP/1.1\r\nHost: a\r\n\r\n")
    #expect(try first.receiveAll().hasPrefix("HTTP/1.1 400 "))
    page = try MetricsPage(of: server)
    #expect(page["musickit_tls_failures_total", ["cause": "not_tls"]] == 1)
    #expect(page[Self.requests, Self.responses("-", "-", "400")] == 1)
  }
}

@Suite("Metrics of the catalog")
struct CatalogMetricsTests {
  private static let album = "/v1/catalog/us/albums/1200868601"

  @Test("count upstream requests and describe the cache")
  func cache() throws {
    let ground = try Ground()
    let sandbox = try RunningServer(
      Program.path, ["sandbox", "--port", "0", "--key-file", ground.keyFile, "--team-id", Ground.teamID],
      environment: [:], hasAdmin: false)
    let server = try ground.serve([
      "ACCESS_ANONYMOUS": "{ token: true, catalog: true }", "CATALOG_UPSTREAM": sandbox.url, "SERVER_LOOPS": "2",
    ])
    for _ in 0..<3 { #expect(try server.request(Self.album).status == 200) }
    let page = try MetricsPage(of: server)
    let route = "/v1/catalog/{storefront}/{type}/{id}"
    #expect(page["musickit_http_requests_total", ["route": route, "method": "GET", "code": "200"]] == 3)
    #expect(page["musickit_upstream_attempts_total"] == 1)
    #expect(page["musickit_upstream_retries_total"] == 0)
    #expect(page["musickit_upstream_tokens_minted_total"] == 1)
    #expect(page["musickit_upstream_failures_total"] == 0)
    #expect(page["musickit_upstream_token_rejected"] == 0)
    #expect(page["musickit_upstream_connections_opened_total"] == 1)
    #expect(page["musickit_upstream_requests_in_flight"] == 0)
    #expect(page["musickit_upstream_saturation_ratio"] == 0)
    #expect(page["musickit_upstream_connection_requests"] == 0)
    #expect(page["musickit_upstream_connection_waiting"] == 0)
    #expect(page["musickit_upstream_clock_skew_seconds"] == 0)
    #expect(page["musickit_upstream_response_seconds_count"] == 1)
    #expect(page["musickit_upstream_errors_total", ["cause": "connect"]] == 0)
    #expect(page["musickit_cache_misses_total"] == 1)
    #expect(page["musickit_cache_hits_total"] == 2)
    #expect(page["musickit_cache_entries"] == 1)
    #expect(try #require(page["musickit_cache_bytes"]) > 1000)
    withExtendedLifetime(sandbox) {}
  }

  @Test("give the cause of upstream errors and the clock skew of Apple Music")
  func badDay() throws {
    let ground = try Ground()
    let sandbox = try RunningServer(
      Program.path,
      ["sandbox", "--port", "0", "--key-file", ground.keyFile, "--team-id", Ground.teamID, "--clock-skew", "90"],
      environment: [:], hasAdmin: false)
    let server = try ground.serve(["ACCESS_ANONYMOUS": "{ catalog: true }", "CATALOG_UPSTREAM": sandbox.url])
    let began = ContinuousClock.now
    #expect(try server.request(Self.album).status == 200)
    let delay = Double((ContinuousClock.now - began).components.seconds)
    let skew = try MetricsPage(of: server)["musickit_upstream_clock_skew_seconds"]
    #expect((88 - delay...91).contains(try #require(skew)))
    #expect(sandbox.stop() == 0)
    #expect(try server.request("/v1/catalog/us/songs/1200868616").status == 502)
    let page = try MetricsPage(of: server)
    #expect(try #require(page["musickit_upstream_errors_total", ["cause": "connect"]]) >= 1)
    #expect(page["musickit_upstream_errors_total", ["cause": "tls"]] == 0)
  }

  @Test("count each rejected token and show the rejection")
  func rejected() throws {
    let sandbox = try RunningServer(
      Program.path, ["sandbox", "--port", "0"], environment: [:], hasAdmin: false)
    let server = try Ground().serve([
      "ACCESS_ANONYMOUS": "{ token: true, catalog: true }", "CATALOG_UPSTREAM": sandbox.url,
    ])
    #expect(try server.request(Self.album).errorCode == "developer_token_rejected")
    let page = try MetricsPage(of: server)
    #expect(page["musickit_upstream_token_rejections_total"] == 2)
    #expect(page["musickit_upstream_tokens_minted_total"] == 2)
    #expect(page["musickit_upstream_token_rejected"] == 1)
    withExtendedLifetime(sandbox) {}
  }
}
