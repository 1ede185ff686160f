/// The picture of a resource: a gradient of a colour that depends on nothing but the resource.
struct Artwork: Sendable {
  /// Longest side in pixels, which is also what `width` and `height` say.
  static let maximumSide = 3000

  private let key: ResourceKey
  private let seed: UInt64

  init(of key: ResourceKey) {
    self.key = key
    seed = Numbers.hash("\(key.type.rawValue)/\(key.id)".utf8)
  }

  /// The colour at the top, and where it goes to at the bottom, each as red, green and blue.
  var colours: (top: [UInt8], bottom: [UInt8]) {
    let top = [0, 8, 16].map { UInt8(truncatingIfNeeded: seed >> UInt64($0)) / 2 + 0x20 }
    return (top, top.map { $0 + 0x60 })
  }

  /// The `artwork` attribute.
  func document(base: String) -> Document {
    let digits = Self.hexadecimal(seed)
    let path = "/image/thumb/Sandbox/v4/\(digits.prefix(2))/\(digits.dropFirst(2).prefix(2))/\(digits)"
    let colours = colours
    return [
      "width": .number(Self.maximumSide), "height": .number(Self.maximumSide),
      "url": .string("\(base)\(path)/\(key.type.rawValue)-\(key.id)/{w}x{h}bb.png"),
      "bgColor": .string(Self.hexadecimal(colours.top)), "textColor1": "ffffff", "textColor2": "f4f4f4",
      "textColor3": .string(Self.hexadecimal(colours.bottom)), "textColor4": "d8d8d8",
    ]
  }

  private static func hexadecimal(_ bytes: [UInt8]) -> String {
    bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
  }

  private static func hexadecimal(_ number: UInt64) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "0", count: 16 - digits.utf8.count) + digits
  }
}
