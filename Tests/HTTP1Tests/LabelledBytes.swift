import Testing

/// Bytes with a label that says what is special about them.
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

  /// The counts to cut the bytes at: all of them, or of a long input one in 211 and the last ones.
  var cuts: [Int] {
    bytes.count <= 600
      ? Array(0...bytes.count) : Array(stride(from: 0, to: bytes.count, by: 211)) + (bytes.count - 20...bytes.count)
  }
}
