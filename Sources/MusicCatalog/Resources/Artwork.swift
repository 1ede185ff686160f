import Bytes
import JSON

/// The picture of a resource: a gradient of a colour that depends only on the resource.
package struct Artwork: Sendable {
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
    seed = Numbers.hash("\(key.type)/\(key.id)".utf8)
  }

  /// The colours at the top and at the bottom, each as red, green and blue.
  package var colours: (top: [UInt8], bottom: [UInt8]) {
    let top = [0, 8, 16].map { UInt8(truncatingIfNeeded: seed >> UInt64($0)) / 2 + 0x20 }
    return (top, top.map { $0 + 0x60 })
  }

  /// The `artwork` attribute. Each response puts the beginning of the URL in place of `{base}`.
  var document: JSONValue {
    var digits: [UInt8] = []
    digits.append(hexadecimal: seed)
    let name = String(decoding: digits, as: UTF8.self)
    let path = "/image/thumb/Sandbox/v4/\(name.prefix(2))/\(name.dropFirst(2).prefix(2))/\(name)"
    let colours = colours
    return [
      "width": .whole(Self.maximumSide), "height": .whole(Self.maximumSide),
      "url": .text("{base}\(path)/\(key.type)-\(key.id)/{w}x{h}bb.png"),
      "bgColor": .text(String(hexadecimal: colours.top.span)), "textColor1": "ffffff", "textColor2": "f4f4f4",
      "textColor3": .text(String(hexadecimal: colours.bottom.span)), "textColor4": "d8d8d8",
    ]
  }
}

/// A generator of pseudorandom numbers, the same in every run (SplitMix64, Steele, Lea and Flood 2014).
package struct Numbers: Sendable {
  private var state: UInt64

  package init(seed: UInt64) {
    state = seed
  }

  package mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  /// Returns a number from 0 to `bound` - 1; 0 unless `bound` is positive.
  package mutating func next(below bound: Int) -> Int {
    bound > 0 ? Int(next() % UInt64(bound)) : 0
  }

  /// Returns a hash that depends only on the bytes (FNV-1a, 64 bits).
  package static func hash(_ bytes: some Sequence<UInt8>) -> UInt64 {
    bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
  }
}
