import TestSupport

/// A server, and the Apple Music emulator as its upstream. Both end with this object.
final class CatalogGround {
  /// The settings of a server that forwards `/v1/me` for every caller.
  static let forEverybody = ["CATALOG_ME": "true", "ACCESS_ANONYMOUS": "{ token: true, catalog: true, me: true }"]

  static let album = "/v1/catalog/us/albums/1200868601"

  let ground: Ground
  let emulator: Emulator
  let server: RunningServer

  /// Starts both.
  ///
  /// - Parameters:
  ///   - settings: The server's settings in addition to those for the emulator.
  ///   - flags: The server's flags.
  ///   - arguments: The emulator's arguments.
  ///   - isSecure: Whether the server and the emulator use TLS, and so HTTP/2.
  init(
    _ settings: [String: String] = [:], flags: [String] = [], emulator arguments: [String] = [], isSecure: Bool = false
  ) throws {
    ground = try Ground()
    emulator = try Emulator(ground, arguments, isSecure: isSecure)
    let own = emulator.settings.merging(["ACCESS_ANONYMOUS": "{ token: true, catalog: true }"]) { $1 }
    server = try ground.serve(own.merging(settings) { $1 }, flags)
  }

  /// A request to the server by curl.
  func request(_ target: String, _ options: String...) throws -> ParsedResponse {
    try ParsedResponse(curl: options + ["\(server.url)\(target)"])
  }

  /// The emulator's own response to a request with a developer token.
  func original(_ target: String) throws -> ParsedResponse {
    guard let token = try server.request("/token").token else { throw TestFailure("There is no token to be had.") }
    return try emulator.request(target, "-H", "Authorization: Bearer \(token)")
  }

  /// A raw connection to the server.
  func connect() throws -> RawConnection { try server.connect() }
}

extension ParsedResponse {
  /// Whether the response came from the cache.
  var isHit: Bool { self["Cache-Status"]?.contains("; hit") ?? false }
}
