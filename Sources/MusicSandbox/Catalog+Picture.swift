import CZlib
import HTTPTypes
import MusicCatalog

/// The endpoint for artwork URLs: `/image/thumb/…/{type}-{id}/{w}x{h}bb.png`. Like Apple's, it needs no token.
extension Catalog {
  /// - Parameter segments: The segments after `image`.
  func picture(_ request: SandboxRequest, _ segments: ArraySlice<String>) throws(AppleError) -> SandboxResponse {
    guard ["GET", "HEAD"].contains(request.method) else { throw .init(.methodNotAllowed, allow: "GET, HEAD") }
    guard segments.first == "thumb", segments.count >= 3, let name = segments.last, name.hasSuffix("bb.png"),
      let artwork = Artwork(named: segments[segments.endIndex - 2]), let sides = name.dropLast(6).halves("x"),
      let width = UInt16(sides.0), let height = UInt16(sides.1), width > 0, height > 0
    else { throw .init(.pathNotFound) }
    let most = Artwork.maximumSide
    guard has(artwork), let png = PNG.gradient(min(Int(width), most), min(Int(height), most), artwork.colours) else {
      throw .init(.resourceNotFound)
    }
    return SandboxResponse(
      200, fields: [.contentType: "image/png", .cacheControl: "public, max-age=86400"], content: png)
  }
}

/// A writer of PNG pictures (ISO/IEC 15948).
private enum PNG {
  /// Returns a picture with a gradient from the first colour to the last; nil if zlib has no memory.
  ///
  /// A pixel is one byte, an index into 256 colours. A row has one colour, so it compresses to nearly nothing.
  static func gradient(_ width: Int, _ height: Int, _ colours: [[UInt8]]) -> [UInt8]? {
    var rows: [UInt8] = []
    rows.reserveCapacity((width + 1) * height)
    for y in 0..<height {
      rows.append(0)  // no filter
      let colour = height > 1 ? y * (colours.count - 1) / (height - 1) : 0
      rows.append(contentsOf: repeatElement(UInt8(truncatingIfNeeded: colour), count: width))
    }
    // The values: eight bits deep, indexed colour, deflate, adaptive filtering, not interlaced (§11.2.2).
    let header = bigEndian(width) + bigEndian(height) + [8, 3, 0, 0, 0]
    return deflated(rows).map { data in
      [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A] + chunk("IHDR", header) + chunk("PLTE", colours.flatMap(\.self))
        + chunk("IDAT", data) + chunk("IEND", [])
    }
  }

  private static func bigEndian(_ number: Int) -> [UInt8] {
    [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
  }

  /// Returns a chunk: length, type, data, and the CRC of type and data (§5.3).
  private static func chunk(_ type: String, _ data: [UInt8]) -> [UInt8] {
    let checked = Array(type.utf8) + data
    // Safe: zlib reads the array only during the call.
    let sum = unsafe crc32(0, checked, UInt32(clamping: checked.count))
    return bigEndian(data.count) + checked + bigEndian(Int(sum))
  }

  /// Returns a zlib stream (RFC 1950), which PNG requires.
  private static func deflated(_ input: [UInt8]) -> [UInt8]? {
    var count = compressBound(UInt(input.count))
    var output = [UInt8](repeating: 0, count: Int(count))
    // Safe: `count` holds the available room, and zlib writes the used size into it.
    guard unsafe compress2(&output, &count, input, UInt(input.count), Z_BEST_SPEED) == Z_OK else { return nil }
    return Array(output.prefix(Int(count)))
  }
}
