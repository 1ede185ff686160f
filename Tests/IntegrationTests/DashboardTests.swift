import JSON
import TestSupport
import Testing

@Suite("The dashboard")
struct DashboardTests {
  private static let folder = "\(Repository.path)/deploy/grafana"

  /// A panel's title and queries.
  private struct Panel {
    let title: String
    let queries: [String]
  }

  private static func panels() throws -> [Panel] {
    let text = try TextFile.read("\(folder)/dashboard.json")
    guard case .array(let panels)? = JSONReader.read(Array(text.utf8))?["panels"] else {
      throw TestFailure("The dashboard has no panels.")
    }
    return panels.map { panel in
      guard case .array(let targets)? = panel["targets"] else { return Panel(title: "", queries: []) }
      return Panel(title: panel["title"]?.string ?? "", queries: targets.compactMap { $0["expr"]?.string })
    }.filter { !$0.queries.isEmpty }
  }

  /// The query with the dashboard's variables at their widest.
  private static func query(_ text: String) -> String {
    text.replacing("$job", with: ".*").replacing("$instance", with: ".*").replacing("$__rate_interval", with: "30s")
      .replacing("$__range", with: "5m")
  }

  /// A server with TLS, certificates of clients, a store and the emulator over TLS, so that each metric has a value.
  private struct Loaded {
    let ground: Ground
    let emulator: Emulator
    let store: RedisServer
    let server: RunningServer

    init() throws {
      ground = try Ground()
      emulator = try Emulator(ground, isSecure: true)
      store = try RedisServer()
      let authority = try Certificate("CA", key: KeyPair(), isAuthority: true)
      let file = try ground.directory.write(authority.pem, to: "client-ca.pem")
      let client = "{ id: 'web', apiKey: { sha256: '\(try AccessGround.sha256("key-of-web"))' }, catalog: true }"
      let own = [
        "SERVER_TLS_CLIENT_CA_FILE": file, "ACCESS_CLIENTS": "[\(client)]", "ACCESS_ANONYMOUS": "",
        "SHARED_URL": "unix://\(store.socket)",
      ]
      let settings = try ground.tlsSettings().merging(emulator.settings) { $1 }
      server = try ground.serve(settings.merging(own) { $1 })
    }

    /// Sends requests that succeed, one that is refused, and one without TLS.
    func request() throws {
      let options = ["--cacert", ground.certificateFile, "-H", "X-API-Key: key-of-web"]
      for path in ["/token", CatalogGround.album] {
        #expect(try ParsedResponse(curl: options + ["\(server.url)\(path)"]).status == 200)
      }
      let stranger = ["--cacert", ground.certificateFile, "-H", "X-API-Key: key-of-a-stranger", "\(server.url)/token"]
      #expect(try ParsedResponse(curl: stranger).status >= 400)
      let plain = try server.connect()
      plain.send("GET /token HTTP/1.1\r\nHost: a\r\n\r\n")
      #expect(try plain.receiveAll().hasPrefix("HTTP/1.1 400 "))
    }
  }

  @Test(
    "has only queries that Prometheus understands, and each has data for a server with load; its picture has all panels"
  )
  func queries() throws {
    let panels = try Self.panels()
    #expect(panels.count > 30)
    let loaded = try Loaded()
    let prometheus = try PrometheusServer(loaded.server)
    var missing = panels.flatMap(\.queries)
    try eventually("every query of a panel has data") {
      try loaded.request()
      missing = try missing.filter { try prometheus.seriesCount(of: Self.query($0)) == 0 }
      return missing.isEmpty
    }
    let picture = try run(Repository.python, ["\(Self.folder)/picture", prometheus.url, "60"])
    #expect(picture.status == 0, "\(picture.stderr)")
    let parser = "import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.stdin)"
    #expect(try run(Repository.python, ["-c", parser], input: picture.standardOutput).status == 0)
    for panel in panels {
      #expect(picture.stdout.contains(panel.title.replacing("'", with: "&#x27;")), "\(panel.title)")
    }
    #expect(picture.stdout.contains(">web</text>"))
  }
}
