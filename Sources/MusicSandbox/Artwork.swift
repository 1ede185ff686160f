import Bytes
import CZlib
import HTTPTypes
import JSON

/// The picture of a resource: a gradient whose colours depend only on the resource.
struct Artwork {
  /// The maximum side in pixels, which is also the value of `width` and `height`.
  static let maximumSide = 3000

  let key: ResourceKey
  private let seed: UInt64
  /// The colours from the top to the bottom, each as red, green and blue.
  private let colours: [[UInt8]]

  init(of key: ResourceKey) {
    self.key = key
    let seed = UInt64(fnv1a: "\(key.type)/\(key.id)".utf8)
    let top = [0, 8, 16].map { UInt8(truncatingIfNeeded: seed >> UInt64($0)) / 2 + 0x20 }
    self.seed = seed
    colours = (0..<256).map { shade in top.map { $0 + UInt8(0x60 * shade / 256) } }
  }

  /// The `artwork` attribute. Each response puts the beginning of the URL in place of `{base}`.
  var document: JSONValue {
    let (top, bottom) = (colours[0], colours[colours.count - 1])
    let name = String(seed, radix: 16)
    let path = "/image/thumb/Sandbox/v4/\(name.prefix(2))/\(name.dropFirst(2).prefix(2))/\(name)"
    return [
      "width": .whole(Self.maximumSide), "height": .whole(Self.maximumSide),
      "url": .text("{base}\(path)/\(key.type)-\(key.id)/{w}x{h}bb.png"),
      "bgColor": .text(String(hexadecimal: top.span)), "textColor1": "ffffff", "textColor2": "f4f4f4",
      "textColor3": .text(String(hexadecimal: bottom.span)), "textColor4": "d8d8d8",
    ]
  }

  /// Returns the picture as PNG (ISO/IEC 15948), whose pixels are indices into the colours; nil if zlib has no memory.
  func picture(_ width: Int, _ height: Int) -> [UInt8]? {
    var rows: [UInt8] = []
    for y in 0..<height {
      // Zero says that the row has no filter.
      rows.append(0)
      rows += repeatElement(UInt8(y * (colours.count - 1) / max(height - 1, 1)), count: width)
    }
    var count = compressBound(UInt(rows.count))
    var data = [UInt8](repeating: 0, count: Int(count))
    // Safe: `count` holds the available room, and zlib writes the used size into it.
    guard unsafe compress2(&data, &count, rows, UInt(rows.count), Z_BEST_SPEED) == Z_OK else { return nil }
    // The values: eight bits deep, indexed colour, deflate, adaptive filtering, not interlaced (§11.2.2).
    let header = Self.bigEndian(width) + Self.bigEndian(height) + [8, 3, 0, 0, 0]
    let chunks = [
      ("IHDR", header), ("PLTE", colours.flatMap(\.self)), ("IDAT", Array(data.prefix(Int(count)))), ("IEND", []),
    ]
    return [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A] + chunks.flatMap(Self.chunk)
  }

  private static func bigEndian(_ number: Int) -> [UInt8] {
    [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
  }

  /// Returns a chunk: length, type, data, and the CRC of type and data (§5.3).
  private static func chunk(_ type: String, _ data: [UInt8]) -> [UInt8] {
    let checked = Array(type.utf8) + data
    // Safe: zlib reads the array only during the call.
    return bigEndian(data.count) + checked + bigEndian(Int(unsafe crc32(0, checked, UInt32(clamping: checked.count))))
  }
}

extension Catalog {
  /// The endpoint for artwork URLs: `/image/thumb/…/{type}-{id}/{w}x{h}bb.png`. Like Apple's, it needs no token.
  func picture(_ request: SandboxRequest) throws(AppleError) -> SandboxResponse {
    let segments = request.segments.dropFirst()
    guard ["GET", "HEAD"].contains(request.method) else { throw .init(.methodNotAllowed, allow: "GET, HEAD") }
    guard segments.first == "thumb", segments.count >= 3, let size = segments.last, size.hasSuffix("bb.png"),
      let name = segments.dropLast().last, let type = types.all.first(where: { name.hasPrefix("\($0.name)-") }),
      let sides = size.dropLast(6).halves("x"), let width = UInt16(sides.0), let height = UInt16(sides.1),
      width > 0, height > 0
    else { throw .init(.pathNotFound) }
    // A type may contain a hyphen too.
    let artwork = Artwork(of: ResourceKey(type.name, ByteString(name.dropFirst(type.name.count + 1))))
    let (most, key) = (Artwork.maximumSide, artwork.key)
    guard find(key) != nil, let content = artwork.picture(min(Int(width), most), min(Int(height), most)) else {
      throw .init(.resourceNotFound)
    }
    return SandboxResponse(
      200, fields: [.contentType: "image/png", .cacheControl: "public, max-age=86400"], content: content)
  }
}
