import CZlib

/// Writes a picture as PNG (ISO/IEC 15948).
struct PNG {
  private var bytes: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]

  /// A picture that goes from one colour at the top to another at the bottom. Nil if zlib has no memory.
  ///
  /// One byte for a pixel, an index into 256 shades: a row is one shade, so it compresses to nearly nothing.
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
    // Eight bits deep, indexed colour, deflate, adaptive filtering, not interlaced (§11.2.2).
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

  /// A chunk: length, type, data, and the CRC of type and data (§5.3).
  private mutating func append(_ type: String, _ data: [UInt8]) {
    let checked = Array(type.utf8) + data
    // Safe: zlib reads the array while it is lent and keeps nothing.
    let sum = unsafe crc32(0, checked, UInt32(clamping: checked.count))
    bytes += Self.bigEndian(data.count) + checked + Self.bigEndian(Int(sum))
  }

  /// A zlib stream (RFC 1950), as PNG wants it.
  private static func deflated(_ input: [UInt8]) -> [UInt8]? {
    var count = compressBound(UInt(input.count))
    var output = [UInt8](repeating: 0, count: Int(count))
    // Safe: `count` is the room there is, and zlib says in it how much it used.
    guard unsafe compress2(&output, &count, input, UInt(input.count), Z_BEST_SPEED) == Z_OK else { return nil }
    output.removeLast(output.count - Int(count))
    return output
  }
}
