import JSON
import TestSupport

/// A server with a list of clients, and the Apple Music emulator behind it.
final class AccessGround {
  /// The keys of clients `android`, whose second one is to replace the first, and `studio`.
  static let android = "android-key-of-the-test"
  static let oldAndroid = "android-key-before-that"
  static let studio = "studio-key-of-the-test"

  static let album = CatalogGround.album

  let catalog: CatalogGround
  var server: RunningServer { catalog.server }

  /// The clients of the table: `android` by keys, `web` by origins, `studio` by key and origin.
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

  /// Starts it.
  ///
  /// - Parameters:
  ///   - more: Further clients.
  ///   - settings: Besides those that it needs to get to the emulator. Nobody is served without a credential.
  init(_ more: String = "", _ settings: [String: String] = [:]) throws {
    let own = ["ACCESS_CLIENTS": try Self.clients(more: more), "ACCESS_ANONYMOUS": "", "CATALOG_ME": "true"]
    catalog = try CatalogGround(own.merging(settings) { $1 })
  }

  static func sha256(_ text: String) throws -> String {
    String(try run("sha256sum", input: Array(text.utf8)).stdout.prefix(64))
  }

  /// A request by curl with the key of client `android`, unless it says otherwise.
  func request(_ target: String, key: String? = AccessGround.android, _ options: String...) throws -> ParsedResponse {
    let credential = key.map { ["-H", "Authorization: Bearer \($0)"] } ?? []
    return try ParsedResponse(curl: credential + options + ["\(server.url)\(target)"])
  }

  /// The lines of the record so far, or all of them once the server has ended.
  var auditLines: [AuditLine] { server.auditLines }
}
