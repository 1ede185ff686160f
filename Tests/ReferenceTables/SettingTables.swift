#if DEBUG
  @testable import ServerSettings

  /// The tables of the settings, generated from their rows.
  enum SettingTables {
    private static let limitsPath = "server.limits."
    /// Each of these settings takes the place of one without `traces`.
    private static let tracesPath = "otel.exporter.otlp.traces."

    static var settings: String {
      table(of: Settings.known.filter { !$0.path.hasPrefix(limitsPath) && !$0.path.hasPrefix(tracesPath) })
    }
    static var limits: String { table(of: Settings.known.filter { $0.path.hasPrefix(limitsPath) }) }

    /// The table of a client's members in `access.clients`.
    static var client: String { members(of: Settings.Access.clients) }

    /// The table of a key's members in `musickit.keys`.
    static var key: String { members(of: Settings.MusicKit.keys) }

    private static func members(of setting: some SettingRow) -> String {
      var table = MarkdownTable("member", "default", "values", "meaning")
      for (path, row) in setting.descendants {
        let example = row.example.map { $0.count < 40 ? "such as \($0.code)" : "" }
        table.add(path.code, row.defaultText?.code ?? "", values(of: row) ?? example ?? "", row.text)
      }
      return table.text
    }

    /// The valid values in a few words. Those of a switch need none.
    private static func values(of row: any SettingRow) -> String? { row.values == "true, false" ? "" : row.values }

    /// A dagger marks the settings that need a restart.
    private static func table(of rows: [any SettingRow]) -> String {
      var table = MarkdownTable("path", "default", "values", "meaning")
      for row in rows {
        let mark = row.fixed == nil ? "" : " †"
        let text = row.path.hasPrefix(limitsPath) ? row.text.briefest : row.text.brief
        table.add(row.path.code + mark, row.defaultText?.code ?? "", values(of: row) ?? "", text)
      }
      return table.text
    }
  }

  /// The text of `config/example.json5`: every setting with its sentence and default, and what a copy must change.
  enum ExampleConfiguration {
    static var text: String { header + "{\n" + members(of: "", indent: 2) + "}\n" }

    private static let header = """
      // Every setting. What is commented out shows its default, or an example if it has none.
      //
      // A setting can also come from the environment, in a variable named after its path (server.limits.idle is
      // SERVER_LIMITS_IDLE; lists and objects are JSON5 there too), and from a flag: --set server.limits.idle=30s.
      // The environment overrides this file, and a flag overrides both. An empty variable counts as unset.
      //
      // Durations are "45s", "15m", "12h" or "30d". Sizes are "16KB" or "1MB"; one kilobyte has 1024 bytes.
      // Relative names of files are relative to this file; in a variable or flag, to the directory in which the server starts.
      //
      // `musickit-token-server check-config --config FILE` names every error at once.

      """

    /// The settings that a copy must change. All other settings are commented out.
    private static let own = ["musickit.teamID", "musickit.keyFile", "access.clients"]

    /// The sections that have an effect by their mere presence.
    private static let commentedSections = ["access.anonymous"]

    private static let comments = [
      "server.tls": "HTTPS: certificate and key, both in PEM.",
      "server.drain": "At SIGTERM.",
      "server.limits": "What a client may make the server hold, read or wait for.",
      "admin": "Health and metrics for operators: /healthz and /readyz with an entry per check, and /metrics.",
      "catalog":
        "Apple's catalog through this server: /v1/catalog, /v1/storefronts, /v1/language and /v1/test.",
      "catalog.cache": "The cache of responses, in memory.",
      "access":
        "Which client may have what. Without clients and without anonymous, the server does not start.",
      "access.anonymous": """
      What callers without credentials get; without this, nothing. They get tokens only with token: true. (An empty \
      object, anonymous: {}, means the same, and check-config warns about it.) A variable such as \
      ACCESS_ANONYMOUS_CATALOG changes a policy here or in ACCESS_ANONYMOUS, and never creates one.
      """,
      "audit": "The record of every grant and every refusal.",
    ]

    /// Returns the settings and sections within `section`, in the order of the rows.
    private static func members(of section: String, indent: Int, width: Int = 118) -> String {
      let prefix = section.isEmpty ? "" : section + "."
      var seen: Set<String> = []
      var parts: [String] = []
      for row in Settings.known where row.path.hasPrefix(prefix) {
        let names = row.path.dropFirst(prefix.count).split(separator: ".")
        guard let name = names.first, seen.insert(String(name)).inserted else { continue }
        parts.append(names.count == 1 ? setting(row, indent, width) : object(prefix + name, String(name), indent))
      }
      return parts.joined(separator: "\n")
    }

    private static func setting(_ row: any SettingRow, _ indent: Int, _ width: Int) -> String {
      let name = row.path.split(separator: ".").last ?? ""
      let values = row.values.flatMap { $0 == "true, false" ? nil : " Values: \($0)." } ?? ""
      let examples =
        row.path == "access.clients" ? clients.map { "\(pad(indent))// \($0)".trimmed + "\n" }.joined() : ""
      let line = "\(name): \(row.example ?? row.defaultText ?? "")"
      return comment(row.text.plain + values, indent, width) + examples + pad(indent)
        + (own.contains(row.path) ? "" : "// ") + line + ",\n"
    }

    private static func object(_ path: String, _ name: String, _ indent: Int) -> String {
      let heading = comments[path].map { comment($0, indent) } ?? ""
      guard commentedSections.contains(path) else {
        return heading + "\(pad(indent))\(name): {\n" + members(of: path, indent: indent + 2) + "\(pad(indent))},\n"
      }
      let members = members(of: path, indent: 2, width: 111).split(separator: "\n", omittingEmptySubsequences: false)
        .dropLast()
      let lines =
        ["\(name): {"] + members.map { $0.replacing(/^  \/\/ ([a-zA-Z]+: .*,)$/) { "  \($0.output.1)" } } + ["},"]
      return heading + lines.map { "\(pad(indent))// \($0)".trimmed + "\n" }.joined()
    }

    /// Returns `text` as comment lines of at most `width` columns.
    private static func comment(_ text: String, _ indent: Int, _ width: Int = 118) -> String {
      var lines = [""]
      for word in text.split(separator: " ") {
        let line = lines[lines.count - 1]
        if indent + 3 + line.count + 1 + word.count > width {
          lines.append(String(word))
        } else {
          lines[lines.count - 1] = line.isEmpty ? String(word) : "\(line) \(word)"
        }
      }
      return lines.map { "\(pad(indent))// \($0)\n" }.joined()
    }

    private static func pad(_ count: Int) -> String { String(repeating: " ", count: count) }

    /// The example clients, one for each kind of credential.
    private static let clients = """

      A request has one credential at most; `musickit-token-server new-api-key` makes keys. For example:

          clients: [
            {
              // Its name, in logs and metrics.
              id: "android",

              // It sends one of these keys, as Authorization: Bearer KEY or X-API-Key: KEY. Two, while one replaces
              // the other.
              apiKey: { sha256: ["<64 digits from new-api-key>", "<64 digits of the next one>"] },

              // What it may have.
              token: true, catalog: true, me: false,

              // The lifetime of its tokens, and the longest that it may request.
              ttl: "12h",

              // The storefronts whose catalog it may have. Default: all.
              storefronts: ["us", "gb"],

              // The rate of each address, or of each user of a JWT, and the total of all of them together.
              rateLimit: { perSecond: 5, burst: 20, total: { perSecond: 200, burst: 1000 } },

              // The part of the concurrent requests to Apple that it may have.
              share: 0.5,
            },

            // Web pages, identified by their origin. A star is one label. Tokens are bound to the page's own origin.
            { id: "web", origins: ["https://app.example.com", "https://*.preview.example.com"] },

            // Users of an identity provider, or apps by Firebase App Check.
            {
              id: "members",
              jwt: {
                issuer: "https://id.example.com/",
                audience: "music",
                jwksURL: "https://id.example.com/.well-known/jwks.json",  // or jwksFile
                // caFile: "internal-ca.pem",
                // algorithms: ["ES256", "RS256", "PS256", "EdDSA"],
                // requiredClaims: { scope: "music" },
              },
            },

            // A partner, identified by its TLS client certificate; it needs server.tls.clientCAFile.
            { id: "partner", clientCertificate: { san: "spiffe://example.com/partner" }, token: false, catalog: true },
          ]
      """.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
  }

  extension String {
    /// The first sentence, and those that are needed with it. The example configuration has all of them.
    fileprivate var brief: String {
      let sentences = split(separator: ". ")
      let needed = sentences.indices.filter { index in
        index == 0 || ["Default", "Required", "Needs"].contains { sentences[index].hasPrefix($0) }
          || sentences[index].contains("](")
      }
      let text = needed.map { sentences[$0] }.joined(separator: ". ")
      return text.hasSuffix(".") ? text : text + "."
    }

    /// The same without the reason that follows a colon in the first sentence.
    fileprivate var briefest: String {
      let sentences = brief.split(separator: ". ")
      let first = sentences[0].split(separator: /: (?=[a-z])/)[0]
      let text = ([first] + sentences.dropFirst()).joined(separator: ". ")
      return text.hasSuffix(".") ? text : text + "."
    }

    /// The text without Markdown. A link to a document becomes its text, with the document in parentheses.
    fileprivate var plain: String {
      replacing("`", with: "").replacing(/\[([^\]]+)\]\(([a-z-]+\.md)[^)]*\)/) {
        "\($0.output.1) (docs/\($0.output.2))"
      }
    }

    fileprivate var trimmed: String {
      var text = self
      while text.last == " " { text.removeLast() }
      return text
    }
  }
#endif
