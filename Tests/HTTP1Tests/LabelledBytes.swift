import Testing

/// Bytes with a label that describes what is special about them.
struct LabelledBytes: CustomTestStringConvertible, Sendable {
  let testDescription: String
  let bytes: [UInt8]

  init(_ label: String, _ bytes: [UInt8]) {
    testDescription = label
    self.bytes = bytes
  }

  init(_ label: String, _ text: String) {
    self.init(label, Array(text.utf8))
  }

  /// The positions at which to split the bytes: all of them, or in a long input every 211th and the last 20.
  var cuts: [Int] {
    bytes.count <= 600
      ? Array(0...bytes.count) : Array(stride(from: 0, to: bytes.count, by: 211)) + (bytes.count - 20...bytes.count)
  }
}
