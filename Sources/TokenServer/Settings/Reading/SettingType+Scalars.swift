extension SettingType where Value == Bool {
  /// `true` or `false`.
  static let bool = SettingType.scalar(write: { "\($0)" }) { (content) throws(InvalidValue) in
    let remedy = "write true or false"
    switch content {
    case .json(.bool(let value)): return value
    case .text("true"): return true
    case .text("false"): return false
    case .text(let text): throw InvalidValue(problem: "\(quoted(text)) is neither true nor false", remedy: remedy)
    case .json(let other): throw .wrongType(other, remedy: remedy)
    case .secret: throw InvalidValue(problem: "is a secret", remedy: remedy)
    }
  }
}

extension SettingType where Value == Int {
  /// A whole number within `range`.
  static func integer(_ range: ClosedRange<Int>) -> SettingType {
    let remedy = "write a whole number from \(range.lowerBound) to \(range.upperBound)"
    return scalar(write: { "\($0)" }) { (content) throws(InvalidValue) in
      let number: Int
      switch content {
      case .json(.integer(let value)): number = value
      case .json(.number(let text)):
        throw InvalidValue(problem: "\(quoted(text)) is not a whole number", remedy: remedy)
      case .json(let other): throw .wrongType(other, remedy: remedy)
      case .secret: throw InvalidValue(problem: "is a secret", remedy: remedy)
      case .text(let text):
        guard let value = Int(text) else {
          throw InvalidValue(problem: "\(quoted(text)) is not a whole number", remedy: remedy)
        }
        number = value
      }
      guard range.contains(number) else { throw InvalidValue(problem: "\(number) is out of range", remedy: remedy) }
      return number
    }
  }
}

extension SettingType where Value: CaseIterable & RawRepresentable, Value.RawValue == String {
  /// One of an enumeration's words.
  static var word: SettingType {
    let words = Value.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
    let remedy = "write one of \(words)"
    return string(remedy, write: { "\"\($0.rawValue)\"" }) { (text) throws(InvalidValue) in
      guard let value = Value(rawValue: text) else {
        throw InvalidValue(problem: "\(quoted(text)) is not among its values", remedy: remedy)
      }
      return value
    }
  }
}

extension SettingType where Value == String {
  /// A file's path, as the process sees it from its working directory.
  static let path = SettingType.string("write a file's path") { (text) throws(InvalidValue) in
    guard !looksLikeKey(text) else {
      throw InvalidValue(problem: "holds a key or certificate itself", remedy: "write the path of a file that holds it")
    }
    guard !text.isEmpty, !text.utf8.contains(0) else {
      throw InvalidValue(problem: "is empty or holds a NUL", remedy: "write a file's path")
    }
    return text
  }

  /// A Unix-domain socket's path, which the system keeps in 108 bytes with its terminating NUL (unix(7)).
  static let socketPath = SettingType.string("write a path") { (text) throws(InvalidValue) in
    guard (1...107).contains(text.utf8.count), !text.utf8.contains(0) else {
      throw InvalidValue(problem: "is a path of \(text.utf8.count) bytes", remedy: "write a path of 1 to 107 bytes")
    }
    return text
  }
}
