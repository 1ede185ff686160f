import CZlib
import JSON
import Testing

@testable import MusicSandbox

@Suite struct PictureTests {
  @Test(
    "the artwork URL leads to a picture of the requested size",
    arguments: [(400, 300), (300, 700), (90, 8), (8, 90), (1, 1), (3000, 2)])
  func size(width: Int, height: Int) throws {
    let ground = try Ground()
    let target = try Self.target(ground, "\(width)x\(height)")
    // Without a token, as Apple serves pictures.
    let response = ground.sandbox.respond(SandboxRequest("GET", target))
    #expect(response.status == 200)
    #expect(response.fields.single("content-type") == "image/png")
    let picture = try #require(Picture(response.content))
    #expect(picture.width == width && picture.height == height)
    #expect(picture.pixels.count == (width + 1) * height)
    #expect(picture.palette.count == 768)
  }

  @Test("the top row of a picture has the background colour of the artwork")
  func colour() throws {
    let ground = try Ground()
    let picture = try #require(
      Picture(ground.sandbox.respond(SandboxRequest("GET", try Self.target(ground, "100x100"))).content))
    let artwork = try ground.json("/v1/catalog/us/albums/1200868601").at("data.0.attributes.artwork")
    let digits = picture.palette.prefix(3).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
    #expect(artwork?["bgColor"]?.text == digits.joined())
    #expect(picture.pixels[1...100].allSatisfy { $0 == 0 })
    #expect(picture.pixels.suffix(100).allSatisfy { $0 == 255 })
    let other = ground.sandbox.respond(SandboxRequest("GET", "/image/thumb/x/albums-9000001000/100x100bb.png"))
    #expect(Picture(other.content).map { $0.palette != picture.palette } == true)
  }

  @Test("a picture is never larger than the size of the artwork")
  func bounded() throws {
    let ground = try Ground()
    let picture = Picture(
      ground.sandbox.respond(SandboxRequest("GET", try Self.target(ground, "65535x1"))).content)
    #expect(picture?.width == 3000)
  }

  @Test(
    "a malformed picture size gets 404",
    arguments: ["0x1", "1x0", "x", "1", "65536x1", "-1x1", "1x1x1", "{w}x{h}", "99999999999999999999x1"])
  func noPicture(size: String) throws {
    let ground = try Ground()
    #expect(ground.sandbox.respond(SandboxRequest("GET", try Self.target(ground, size))).status == 404)
  }

  @Test("a picture path without an existing resource gets 404")
  func noResource() throws {
    let ground = try Ground()
    for path in ["/image", "/image/thumb", "/image/thumb/albums-1/1x1bb.png", "/image/thumb/x/1x1bb.png"] {
      #expect(ground.sandbox.respond(SandboxRequest("GET", path)).status == 404)
    }
  }

  @Test("the artwork URL begins with the request's host or with the configured base URL")
  func base() throws {
    let url = try Ground().json("/v1/catalog/us/songs/1200868616").at("data.0.attributes.artwork.url")?.text
    #expect(url?.hasPrefix("http://localhost:8081/image/thumb/") == true)
    #expect(url?.hasSuffix("/albums-1200868601/{w}x{h}bb.png") == true, "a song has its album's")
    let other = try Ground { $0.baseURL = "https://music.test" }
    let secure = try other.json("/v1/catalog/us/songs/1200868616").at("data.0.attributes.artwork.url")?.text
    #expect(secure?.hasPrefix("https://music.test/image/") == true)
  }

  private static func target(_ ground: Ground, _ size: String) throws -> String {
    let url = try #require(
      try ground.json("/v1/catalog/us/albums/1200868601").at("data.0.attributes.artwork.url")?.text)
    return url.replacing("http://localhost:8081", with: "").replacing("{w}x{h}", with: size)
  }
}

/// A reader for the one form of PNG that the emulator writes. The reader checks every CRC.
private struct Picture {
  let width: Int
  let height: Int
  let palette: [UInt8]
  /// The rows, each after its filter byte.
  let pixels: [UInt8]

  init?(_ bytes: [UInt8]) {
    guard bytes.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) else { return nil }
    var chunks: [String: [UInt8]] = [:]
    var rest = bytes[8...]
    while rest.count >= 12 {
      let length = Self.number(rest.prefix(4))
      guard rest.count >= length + 12 else { return nil }
      let checked = Array(rest.dropFirst(4).prefix(length + 4))
      // Safe: the array stays valid while zlib reads its bytes.
      let sum = unsafe crc32(0, checked, UInt32(checked.count))
      guard Int(sum) == Self.number(rest.dropFirst(8 + length).prefix(4)) else { return nil }
      chunks[String(decoding: checked.prefix(4), as: UTF8.self)] = Array(checked.dropFirst(4))
      rest = rest.dropFirst(length + 12)
    }
    guard rest.isEmpty, chunks["IEND"] == [], let header = chunks["IHDR"], header.count == 13,
      header[8...] == [8, 3, 0, 0, 0], let palette = chunks["PLTE"], let data = chunks["IDAT"]
    else { return nil }
    width = Self.number(header.prefix(4))
    height = Self.number(header.dropFirst(4).prefix(4))
    self.palette = palette
    var count = UInt((width + 1) * height + 1)
    var pixels = [UInt8](repeating: 0, count: Int(count))
    // Safe: `count` is the capacity of the buffer.
    guard unsafe uncompress(&pixels, &count, data, UInt(data.count)) == Z_OK else { return nil }
    self.pixels = Array(pixels.prefix(Int(count)))
  }

  private static func number(_ bytes: ArraySlice<UInt8>) -> Int { bytes.reduce(0) { $0 << 8 | Int($1) } }
}
