import Bytes
import JSON

/// The picture of a resource: a gradient of a colour that depends only on the resource.
package struct Artwork {
  /// The maximum side in pixels, which is also the value of `width` and `height`.
  package static let maximumSide = 3000

  let key: ResourceKey
  private let seed: UInt64

  /// Parses the resource of `albums-1200868601`; a type may contain a hyphen too.
  package init?(named name: String) {
    guard let type = TypeTable.builtIn.all.first(where: { name.hasPrefix("\($0.name)-") }) else { return nil }
    self.init(of: ResourceKey(type.name, ByteString(name.dropFirst(type.name.count + 1))))
  }

  init(of key: ResourceKey) {
    self.key = key
    seed = UInt64(fnv1a: "\(key.type)/\(key.id)".utf8)
  }

  /// The colours from the top to the bottom, each as red, green and blue.
  package var colours: [[UInt8]] {
    let top = [0, 8, 16].map { UInt8(truncatingIfNeeded: seed >> UInt64($0)) / 2 + 0x20 }
    return (0...255).map { shade in top.map { $0 + UInt8(0x60 * shade / 255) } }
  }

  /// The `artwork` attribute. Each response puts the beginning of the URL in place of `{base}`.
  var document: JSONValue {
    var digits: [UInt8] = []
    digits.append(hexadecimal: seed)
    let name = String(decoding: digits, as: UTF8.self)
    let path = "/image/thumb/Sandbox/v4/\(name.prefix(2))/\(name.dropFirst(2).prefix(2))/\(name)"
    let (top, bottom) = (colours[0], colours[255])
    return [
      "width": .whole(Self.maximumSide), "height": .whole(Self.maximumSide),
      "url": .text("{base}\(path)/\(key.type)-\(key.id)/{w}x{h}bb.png"),
      "bgColor": .text(String(hexadecimal: top.span)), "textColor1": "ffffff", "textColor2": "f4f4f4",
      "textColor3": .text(String(hexadecimal: bottom.span)), "textColor4": "d8d8d8",
    ]
  }
}
