import HTTP1
import HTTPCache
import HTTPMessages
import HTTPTypes
import Testing

@testable import CatalogProxy

@Suite("A crawl of the catalog")
struct CrawlTests {
  /// Requests a song as callers do: the server looks into the cache first. Returns whether the cache had it.
  private func request(_ song: String, by client: String, _ ground: ProxyGround) async throws -> Bool {
    let call = try ground.call("/v1/catalog/us/songs/\(song)")
    if ground.proxy.respondImmediately(call, refresh: {}) != nil { return true }
    #expect(await ground.respond(call, to: client).status == 200)
    return false
  }

  @Test("that requests each song four times takes nothing of another client's cached songs")
  func fourTimes() async throws {
    let ground = ProxyGround { configuration in
      configuration.cache.maxBytes = 200_000
    } _: { _ in
      .scripted(.ok, [.cacheControl: "max-age=60"], "{\"a\":\"\(String(repeating: "b", count: 2000))\"}")
    }
    var hits = 0
    for round in 0..<10 {
      for song in 0..<8 { if try await request("popular\(song)", by: "modest", ground), round >= 4 { hits += 1 } }
      guard round >= 3 else { continue }
      for song in 0..<50 { for _ in 0..<4 { _ = try await request("\(round)-\(song)", by: "crawler", ground) } }
    }
    #expect(hits == 48)
    #expect(ground.proxy.status.cache.evictions > 200)
  }
}
