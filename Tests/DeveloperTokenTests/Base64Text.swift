import Bytes

@testable import DeveloperToken

/// Base64 to and from arrays, for tests that take tokens and keys apart.
enum Base64Text {
  static func decode(_ text: String) -> [UInt8] {
    let compact = Array(text.utf8.filter { $0 > 0x20 })
    var bytes: [UInt8] = []
    bytes.append(addingCapacity: compact.count) { _ = Base64.decodePasted(compact.span, into: &$0) }
    return bytes
  }

  static func encodeURL(_ bytes: [UInt8]) -> String {
    var output: [UInt8] = []
    Base64.appendURL(bytes.span, to: &output)
    return String(decoding: output, as: UTF8.self)
  }
}
