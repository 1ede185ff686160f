public import HTTPTypes

extension RequestHead {
  /// The value of the first field with this name; nil if the field is absent. Allocates nothing.
  ///
  /// - Parameters:
  ///   - lowercaseName: The name in lower case; the comparison ignores the case of what was received.
  ///   - bytes: The buffer that was parsed.
  public func firstField(named lowercaseName: StaticString, in bytes: Span<UInt8>) -> Range<Int>? {
    for line in fields where bytes.equalsIgnoringCase(line.name, lowercaseName) { return line.value }
    return nil
  }

  /// The value of the first field with this name; nil if the field is absent.
  public func firstField(named name: HTTPField.Name, in bytes: Span<UInt8>) -> Range<Int>? {
    for line in fields where bytes.equalsIgnoringCase(line.name, name) { return line.value }
    return nil
  }

  /// Whether a field line bears this name, in lower case.
  public func isNamed(_ line: FieldLine, _ lowercaseName: StaticString, in bytes: Span<UInt8>) -> Bool {
    bytes.equalsIgnoringCase(line.name, lowercaseName)
  }

  /// How many field lines bear this name: more than one is how a field that may appear only once is abused.
  ///
  /// - Parameters:
  ///   - lowercaseName: The name in lower case.
  ///   - bytes: The buffer that was parsed.
  public func fieldCount(named lowercaseName: StaticString, in bytes: Span<UInt8>) -> Int {
    var count = 0
    for line in fields where bytes.equalsIgnoringCase(line.name, lowercaseName) { count += 1 }
    return count
  }
}

extension Span<UInt8> {
  /// Whether the bytes in `range` are `name`. The case of ASCII letters does not matter.
  fileprivate func equalsIgnoringCase(_ range: Range<Int>, _ name: HTTPField.Name) -> Bool {
    let expected = name.canonicalName.utf8
    guard range.count == expected.count else { return false }
    return zip(range, expected).allSatisfy { self[$0].lowercased == $1 }
  }
}
