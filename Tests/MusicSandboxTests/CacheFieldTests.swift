import CZlib
import Testing

@testable import MusicSandbox

@Suite struct CacheFieldTests {
  private static let album = "/v1/catalog/us/albums/1200868601"

  @Test(
    "a response has the caching fields that the options select",
    arguments: [
      (CacheFields.etag, true, false), (.maxAge, false, true), (.both, true, true), (.none, false, false),
    ])
  func fields(choice: CacheFields, hasTag: Bool, hasAge: Bool) throws {
    let response = try Ground { $0.cacheFields = choice }.respond("/v1/catalog/us/charts?types=songs")
    #expect((response.fields.single("etag") != nil) == hasTag)
    #expect((response.fields.single("cache-control") == "max-age=300") == hasAge)
  }

  @Test("by default each combination of caching fields occurs, but never under /me or on errors")
  func mixed() throws {
    let ground = try Ground()
    for (target, hasTag, hasAge) in [
      (Self.album, true, false), ("/v1/catalog/us/artists/82842423", false, true), ("/v1/storefronts", true, true),
      ("/v1/catalog/us/search?term=a", false, false), ("/v1/me/storefront", false, false),
      ("/v1/catalog/us/albums/1", false, false), ("/v1/test", false, false),
    ] {
      let response = ground.respond(target, user: Ground.userToken)
      #expect((response.fields.single("etag") != nil) == hasTag, "\(target)")
      #expect((response.fields.single("cache-control") != nil) == hasAge, "\(target)")
    }
  }

  @Test("a request with a matching If-None-Match gets 304 without content")
  func notModified() throws {
    let ground = try Ground()
    let tag = try #require(ground.respond(Self.album).fields.single("etag"))
    for (value, status) in [
      (tag, 304), ("W/\(tag)", 304), ("\"x\", \(tag)", 304), ("*", 304), ("\"x\"", 200), (String(tag.dropLast()), 200),
    ] {
      let response = ground.respond(Self.album, fields: [SandboxField("If-None-Match", value)])
      #expect(response.status == status, "\(value)")
      #expect(response.content.isEmpty == (status == 304))
      #expect(response.fields.single("etag") == tag)
    }
    #expect(ground.respond("\(Self.album)?l=es-MX").fields.single("etag") != tag)
  }

  @Test("the emulator compresses a response only for a client that accepts gzip, without a change of content")
  func compression() throws {
    let ground = try Ground { $0.compresses = true }
    let plain = ground.respond(Self.album)
    #expect(plain.fields.single("content-encoding") == nil)
    #expect(plain.fields.single("vary") == "Accept-Encoding")
    #expect(plain.fields.single("etag")?.hasPrefix("W/\"") == true, "one tag for both encodings")
    let tag = try #require(plain.fields.single("etag"))
    #expect(ground.respond(Self.album, fields: [SandboxField("If-None-Match", String(tag.dropFirst(2)))]).status == 304)
    for (value, isCompressed) in [
      ("gzip", true), ("br, gzip;q=0.5", true), ("GZIP", true), ("gzip;q=0", false), ("gzip; q=0.0", false),
      ("identity", false), ("br", false),
    ] {
      let response = ground.respond(Self.album, fields: [SandboxField("Accept-Encoding", value)])
      #expect((response.fields.single("content-encoding") == "gzip") == isCompressed, "\(value)")
      #expect(isCompressed ? inflated(response.content) == plain.content : response.content == plain.content)
    }
    #expect(
      try Ground().respond(Self.album, fields: [SandboxField("Accept-Encoding", "gzip")]).content == plain.content)
  }

  private func inflated(_ bytes: [UInt8]) -> [UInt8] {
    var stream = unsafe z_stream()
    unsafe czlib_inflate_init_gzip(&stream)
    defer { unsafe _ = inflateEnd(&stream) }
    var input = bytes
    var output = [UInt8](repeating: 0, count: 1 << 20)
    // Safe: both buffers stay valid during the one call that uses them.
    unsafe input.withUnsafeMutableBufferPointer { input in
      unsafe output.withUnsafeMutableBufferPointer { output in
        unsafe stream.next_in = input.baseAddress
        unsafe stream.avail_in = UInt32(input.count)
        unsafe stream.next_out = output.baseAddress
        unsafe stream.avail_out = UInt32(output.count)
        unsafe _ = inflate(&stream, Z_FINISH)
      }
    }
    return Array(output.prefix(Int(unsafe stream.total_out)))
  }
}
