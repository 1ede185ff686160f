extension SettingType where Value == Int {
  /// A number of bytes within `range`: `"64KB"`, `"64MB"`, or bare. A kilobyte here has 1024 bytes, as in nginx.
  static func size(_ range: ClosedRange<Int>) -> SettingType {
    let values = "\(sizeText(range.lowerBound)) to \(sizeText(range.upperBound))"
    let remedy = "write a size such as \"64KB\" or \"1MB\", from \(values)"
    return scalar(values: values, write: { "\"\(sizeText($0))\"" }) { (content) throws(InvalidValue) in
      let size: Int?
      switch content {
      case .json(.integer(let value)): size = value
      case .text(let text), .json(.string(let text)): size = bytes(of: text)
      case .json(let other): throw .wrongType(other, remedy: remedy)
      case .secret: throw InvalidValue(problem: "is a secret", remedy: remedy)
      }
      guard let size else { throw InvalidValue(problem: "is not a size", remedy: remedy) }
      guard range.contains(size) else {
        throw InvalidValue(problem: "\(sizeText(size)) is out of range", remedy: remedy)
      }
      return size
    }
  }
}

private let units: [(suffix: String, bytes: Int)] = [("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10), ("B", 1)]

/// `bytes` in the largest unit that says it exactly.
func sizeText(_ bytes: Int) -> String {
  let unit = units.first { bytes != 0 && bytes.isMultiple(of: $0.bytes) } ?? ("B", 1)
  return "\(bytes / unit.bytes)\(unit.suffix)"
}

/// The bytes that `text` stands for; nil if it is malformed or beyond an `Int`.
private func bytes(of text: String) -> Int? {
  let unit = units.first { text.hasSuffix($0.suffix) } ?? ("", 1)
  let digits = text.dropLast(unit.suffix.count)
  guard digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let number = Int(digits)
  else { return nil }
  let (bytes, overflow) = number.multipliedReportingOverflow(by: unit.bytes)
  return overflow ? nil : bytes
}
