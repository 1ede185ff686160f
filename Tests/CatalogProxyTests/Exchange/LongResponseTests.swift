import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import TestSupport
import Testing

@testable import CatalogProxy

@Suite("A long response without gzip")
struct LongResponseTests {
  private static let song = "/v1/catalog/us/songs/1"
  private static let fields: FieldLines = [.contentType: "application/json", .cacheControl: "max-age=60"]
  private static let content = String(repeating: " ", count: 500_000)

  private let ground = ProxyGround { _ in .scripted(.ok, fields, content) }

  private func call() throws -> CatalogCall { try ground.call(Self.song, coding: .gzip) }

  /// The size of what a caller with gzip gets from memory now; nil if the response is not there.
  private func size(_ refresh: () -> Void = {}) throws -> Int? {
    let reply = ground.proxy.respondImmediately(try call(), refresh: refresh)
    guard case .response(let response)? = reply else { return nil }
    return response.body.count
  }

  @Test("is sent as it is, and compressed in later turns of the loop, whether Apple sends it or memory has it")
  func later() async throws {
    guard case .response(let first) = await ground.respond(try call()) else { throw Unexpected() }
    #expect(first.body.count == 500_000)
    try await compressed()
    // A caller without gzip fetches the next one.
    ground.time.advance(by: .seconds(100))
    _ = try await ground.ask(Self.song)
    let again = try call()
    #expect(try size { ground.proxy.refresh(again, for: .only("client"), by: ground.route) } == 500_000)
    try await compressed()
  }

  /// Waits until the response is compressed. Each part but the first has to wait for a time that is not over at once.
  private func compressed() async throws {
    for _ in 0..<7 {
      try await until("the next part waits") { ground.time.pauses == 1 }
      #expect(try size() == 500_000)
      ground.time.advance(by: .milliseconds(1))
    }
    try await until("the response is compressed") { try size().map { $0 < 1000 } ?? false }
  }

  @Test("is compressed before the other replicas have it")
  func shared() async throws {
    let store = MemoryStore()
    let cache = try MemorySharedCache(store, ground.time)
    let route = UpstreamRoute(ground.upstream, executor: globalConcurrentExecutor, shared: cache)
    _ = await ground.proxy.respond(try call(), by: route)
    try await until("the response is stored") {
      ground.time.advance(by: .milliseconds(1))
      return store.entries.count == 1
    }
    #expect(store.entries.values.allSatisfy { $0.count < 2000 })
    #expect(try size().map { $0 < 1000 } ?? false)
  }

  private struct Unexpected: Error {}
}
