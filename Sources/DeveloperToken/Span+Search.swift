extension Span<UInt8> {
  /// Where `pattern` first occurs at or after `start`.
  func firstIndex(of pattern: StaticString, from start: Int = 0) -> Int? {
    let length = pattern.utf8CodeUnitCount
    guard start >= 0, count - start >= length else { return nil }
    return (start...(count - length)).first { starts(with: pattern, at: $0) }
  }

  func starts(with pattern: StaticString, at start: Int = 0) -> Bool {
    let length = pattern.utf8CodeUnitCount
    guard start >= 0, count - start >= length else { return false }
    return (0..<length).allSatisfy { unsafe self[start + $0] == pattern.utf8Start[$0] }
  }

  func contains(_ byte: UInt8) -> Bool { indices.contains { self[$0] == byte } }

  func allSatisfy(_ predicate: (UInt8) -> Bool) -> Bool { indices.allSatisfy { predicate(self[$0]) } }
}
