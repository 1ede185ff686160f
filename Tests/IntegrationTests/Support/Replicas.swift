import JSON
import TestSupport

/// Several servers with the same key and settings that share a store.
struct Replicas {
  let ground: Ground
  let store: RedisServer
  let servers: [RunningServer]

  /// Starts the servers, and waits until each knows of all.
  ///
  /// - Parameters:
  ///   - store: The store; nil for a new one without a password.
  ///   - more: Further settings of every server.
  init(_ count: Int, store: RedisServer? = nil, ground: Ground? = nil, _ more: [String: String] = [:]) throws {
    let ground = try ground ?? Ground()
    let store = try store ?? RedisServer()
    self.ground = ground
    self.store = store
    servers = try (0..<count).map { _ in
      // A busy machine lets the store respond late, and then each replica decides alone.
      try ground.serve(["SHARED_URL": "unix://\(store.socket)", "SHARED_TIMEOUT": "5s"].merging(more) { $1 })
    }
    try waitUntilTogether()
  }

  /// Waits until each server knows of all.
  func waitUntilTogether(_ count: Int? = nil) throws {
    let count = count ?? servers.count
    let detail = count == 1 ? "this is the only replica" : "\(count) replicas share it"
    for server in servers.prefix(count) {
      try eventually("\(count) replicas in one group") { try Self.check(server) == ("ok", detail) }
    }
  }

  /// The status and the detail of the check of the store.
  static func check(_ server: RunningServer) throws -> (status: String, detail: String) {
    let check = try server.admin("/readyz").json?["checks"]?["sharedStore"]
    return (check?["status"]?.string ?? "", check?["detail"]?.string ?? "")
  }
}
