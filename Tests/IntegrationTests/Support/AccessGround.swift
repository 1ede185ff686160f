import JSON
import TestSupport

/// A server with a list of clients, and the Apple Music emulator as its upstream.
final class AccessGround {
  /// The API keys of the clients `android`, with a current and an old key, and `studio`.
  static let android = "android-key-of-the-test"
  static let oldAndroid = "android-key-before-that"
  static let studio = "studio-key-of-the-test"

  static let album = CatalogGround.album

  let catalog: CatalogGround
  var server: RunningServer { catalog.server }

  /// The clients of the table: `android` with keys, `web` with origins, `studio` with a key and an origin.
  static func clients(more: String = "") throws -> String {
    """
    [
      { id: "android", apiKey: [{ sha256: "\(try sha256(android))" }, { sha256: "\(try sha256(oldAndroid))" }],
        ttl: "2h", catalog: true, storefronts: ["us", "gb"] },
      { id: "web", origins: ["https://app.example.com", "https://*.preview.example.com"], catalog: true },
      { id: "studio", apiKey: { sha256: "\(try sha256(studio))" }, token: false, catalog: true, me: true,
        origins: ["https://studio.example.com"] },
      \(more)
    ]
    """
  }

  /// Starts the server.
  ///
  /// - Parameters:
  ///   - more: Further clients.
  ///   - settings: Settings in addition to those for the emulator. Anonymous callers have no access.
  init(_ more: String = "", _ settings: [String: String] = [:]) throws {
    let own = ["ACCESS_CLIENTS": try Self.clients(more: more), "ACCESS_ANONYMOUS": "", "CATALOG_ME": "true"]
    catalog = try CatalogGround(own.merging(settings) { $1 })
  }

  static func sha256(_ text: String) throws -> String {
    String(try run("sha256sum", input: Array(text.utf8)).stdout.prefix(64))
  }

  /// A request by curl, by default with the key of the client `android`.
  func request(_ target: String, key: String? = AccessGround.android, _ options: String...) throws -> ParsedResponse {
    let credential = key.map { ["-H", "Authorization: Bearer \($0)"] } ?? []
    return try ParsedResponse(curl: credential + options + ["\(server.url)\(target)"])
  }

  /// The lines of the audit log so far, or all lines after the end of the server.
  var auditLines: [AuditLine] { server.auditLines }
}
