// The client's settings: docs/clients.md, "Apps". The argument returns the token of App Check or your users' JWT:
// let tokens = DeveloperTokens { try await AppCheck.appCheck().token(forcingRefresh: false).token }
import Foundation

/// Keeps a valid token. Use one for the whole app: concurrent callers share one request.
actor DeveloperTokens {
  struct Refused: Error {
    let reason: String
  }

  private struct Held: Decodable {
    let token: String
    let expiresAt: Double
    var refreshAfter: Double
  }

  private let credential: @Sendable () async throws -> String
  private var held: Held?
  private var running: Task<String, any Error>?

  init(credential: @escaping @Sendable () async throws -> String) { self.credential = credential }

  /// Returns a valid token. Throws only without a valid one. It never blocks the calling thread.
  func token(now: Double = Date().timeIntervalSince1970) async throws -> String {
    if let held, now < held.refreshAfter { return held.token }
    let task = running ?? Task {
      defer { running = nil }
      let fresh = try await request()
      held = fresh
      return fresh.token
    }
    running = task
    do {
      return try await task.value
    } catch {
      guard var old = held, now < old.expiresAt - 60 else { throw error }
      old.refreshAfter = now + 60  // the token still works: try again in a minute
      held = old
      return old.token
    }
  }

  private func request() async throws -> Held {
    var request = URLRequest(url: URL(string: "https://tokens.example.com/token")!, timeoutInterval: 5)
    request.setValue("Bearer \(try await credential())", forHTTPHeaderField: "Authorization")
    let (data, response) = try await URLSession.shared.data(for: request)
    guard (response as? HTTPURLResponse)?.statusCode == 200 else {
      throw Refused(reason: String(decoding: data, as: UTF8.self))  // says what is wrong
    }
    return try JSONDecoder().decode(Held.self, from: data)
  }
}
