import HTTPMessages

#if DEBUG
  import DeveloperToken
  import Glibc
  import HTTPServer
  import HTTPTypes
  import Logging
  import Memory
  @testable import ServerSettings
  import Telemetry
  @testable import TokenServer

  /// The tables of the endpoints, from the routes of the routers, as `/openapi.json` describes them.
  struct EndpointTables {
    let `public`: String
    let admin: String

    init() throws {
      let routers = try Self.snapshot().routers()
      // The last pattern of the router is the description itself.
      `public` = Self.table(of: routers.public.patterns)
      admin = Self.table(of: routers.admin.patterns)
    }

    private static func table(of patterns: [RoutePattern]) -> String {
      var table = MarkdownTable("request", "response")
      // One row is enough for all that is the user's.
      for pattern in patterns where !pattern.path.hasPrefix("/v1/me/") || pattern.path == "/v1/me/{path}" {
        var rows: [(methods: [String], operation: OpenAPI.Operation)] = []
        for method in pattern.methods.map({ "\($0)".uppercased() }) {
          let operation = OpenAPI.description(of: method.lowercased(), at: pattern.path)
          if let last = rows.last, last.operation.summary == operation.summary {
            rows[rows.count - 1].methods.append(method)
          } else {
            rows.append(([method], operation))
          }
        }
        for (methods, operation) in rows {
          table.add("\(methods.joined(separator: ", ")) \(pattern.path)".code, operation.summary)
        }
      }
      return table.text
    }

    /// Returns the routes of a server with all features on, without listeners and event loops.
    private static func snapshot() throws -> RuntimeSnapshot {
      let input = SettingsInput(
        environment: [
          "MUSICKIT_TEAM_ID": "TEAM123456", "MUSICKIT_KEY_FILE": "AuthKey_ABC1234567.p8", "CATALOG_ME": "true",
          "ACCESS_ANONYMOUS": "{ token: true }",
        ], host: HostFacts(openFiles: 10_000, cores: 1, logsToTerminal: false))
      let loaded = try Settings.load(input)
      let settings = loaded.settings
      let source = try RuntimeSnapshot.Source(
        settings: settings, key: .generate(keyID: try KeyID("ABC1234567")), warnings: [], proxies: loaded.draft.proxies)
      let logger = Logger(label: "tables") { _ in SwiftLogNoOpLogHandler() }
      let sink = LogSink(descriptor: STDERR_FILENO, format: .json)
      let access = try AccessService(settings.audit, loops: [], sink: sink, logger: logger)
      let memory = MemoryBudget(limit: settings.server.limits.memory)
      let catalog = try settings.catalog.map {
        try CatalogService(
          $0, authorities: source.upstreamAuthorities, connectionsPerLoop: 1,
          burst: settings.server.limits.burst, loops: [], memory: memory, logger: logger)
      }
      return try RuntimeSnapshot(
        source, of: Services(access: access, catalog: catalog, memory: memory, sink: sink))
    }
  }

  /// The table of the error codes, by status.
  enum ErrorTable {
    static var text: String {
      var table = MarkdownTable("`code`", "status", "when")
      let codes = ErrorCode.allCases.enumerated().sorted {
        ($0.element.status.code, $0.offset) < ($1.element.status.code, $1.offset)
      }
      for (_, code) in codes { table.add(code.rawValue.code, "\(code.status.code)", code.meaning) }
      return table.text
    }
  }

  /// The table of the metrics, with the first sentence of each help text. A histogram is known by its label `le`, a
  /// counter by `_total`.
  enum MetricTable {
    static var text: String {
      var table = MarkdownTable("metric", "labels", "meaning")
      for metric in ServerMetrics.all {
        let labels = metric.labels + (metric.isHistogram ? ["le"] : [])
        let sentence = metric.help.split(separator: ". ").first ?? ""
        let meaning = sentence.hasSuffix(".") ? "\(sentence)" : "\(sentence)."
        table.add(metric.name.code, labels.map(\.code).joined(separator: ", "), meaning)
      }
      return table.text
    }
  }
#endif
