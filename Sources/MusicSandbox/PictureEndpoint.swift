import CZlib
import HTTPTypes
import MusicCatalog

/// The endpoint for artwork URLs: `/image/thumb/…/{type}-{id}/{w}x{h}bb.png`. Like Apple's, it needs no token.
enum PictureEndpoint {
  /// Responds to a request for a picture.
  ///
  /// - Parameter segments: The segments after `image`.
  static func respond(
    _ request: SandboxRequest, _ segments: ArraySlice<String>, catalog: Catalog
  ) throws(AppleError) -> SandboxResponse {
    guard ["GET", "HEAD"].contains(request.method) else { throw .init(.methodNotAllowed, allow: "GET, HEAD") }
    guard segments.first == "thumb", segments.count >= 3, let size = size(segments[segments.endIndex - 1]),
      let artwork = Artwork(named: segments[segments.endIndex - 2])
    else { throw .init(.pathNotFound) }
    guard catalog.has(artwork), let png = PNG.gradient(width: size.width, height: size.height, artwork.colours)
    else { throw .init(.resourceNotFound) }
    return SandboxResponse(
      200, fields: [.contentType: "image/png", .cacheControl: "public, max-age=86400"], content: png)
  }

  /// Parses the width and height of `400x300bb.png`, clamped to the maximum.
  private static func size(_ name: String) -> (width: Int, height: Int)? {
    guard name.hasSuffix("bb.png") else { return nil }
    let sides = name.dropLast(6).split(separator: "x", omittingEmptySubsequences: false)
    guard sides.count == 2, let width = UInt16(sides[0]), let height = UInt16(sides[1]), width > 0, height > 0 else {
      return nil
    }
    return (min(Int(width), Artwork.maximumSide), min(Int(height), Artwork.maximumSide))
  }
}

/// A writer of PNG pictures (ISO/IEC 15948).
struct PNG {
  private var bytes: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]

  /// Returns a picture with a gradient from the top colour to the bottom colour; nil if zlib has no memory.
  ///
  /// A pixel is one byte, an index into 256 shades. A row has one shade, so it compresses to nearly nothing.
  static func gradient(width: Int, height: Int, _ colours: (top: [UInt8], bottom: [UInt8])) -> [UInt8]? {
    var rows: [UInt8] = []
    rows.reserveCapacity((width + 1) * height)
    for y in 0..<height {
      let shade = UInt8(truncatingIfNeeded: height > 1 ? y * 255 / (height - 1) : 0)
      rows.append(0)  // no filter
      rows.append(contentsOf: repeatElement(shade, count: width))
    }
    guard let data = deflated(rows) else { return nil }
    var png = PNG()
    // The values: eight bits deep, indexed colour, deflate, adaptive filtering, not interlaced (§11.2.2).
    png.append("IHDR", bigEndian(width) + bigEndian(height) + [8, 3, 0, 0, 0])
    png.append("PLTE", palette(colours))
    png.append("IDAT", data)
    png.append("IEND", [])
    return png.bytes
  }

  private static func palette(_ colours: (top: [UInt8], bottom: [UInt8])) -> [UInt8] {
    var palette: [UInt8] = []
    for shade in 0...255 {
      for (top, bottom) in zip(colours.top, colours.bottom) {
        let mixed: Int = Int(top) * (255 - shade) + Int(bottom) * shade
        palette.append(UInt8(truncatingIfNeeded: mixed / 255))
      }
    }
    return palette
  }

  private static func bigEndian(_ number: Int) -> [UInt8] {
    [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
  }

  /// Appends a chunk: length, type, data, and the CRC of type and data (§5.3).
  private mutating func append(_ type: String, _ data: [UInt8]) {
    let checked = Array(type.utf8) + data
    // Safe: zlib reads the array only during the call.
    let sum = unsafe crc32(0, checked, UInt32(clamping: checked.count))
    bytes += Self.bigEndian(data.count) + checked + Self.bigEndian(Int(sum))
  }

  /// Returns a zlib stream (RFC 1950), which PNG requires.
  private static func deflated(_ input: [UInt8]) -> [UInt8]? {
    var count = compressBound(UInt(input.count))
    var output = [UInt8](repeating: 0, count: Int(count))
    // Safe: `count` holds the available room, and zlib writes the used size into it.
    guard unsafe compress2(&output, &count, input, UInt(input.count), Z_BEST_SPEED) == Z_OK else { return nil }
    output.removeLast(output.count - Int(count))
    return output
  }
}
