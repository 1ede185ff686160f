import Glibc

extension StaticString {
  /// Whether the texts are the same; quick where they are one literal, as nearly always.
  public func isSame(as other: StaticString) -> Bool {
    guard utf8CodeUnitCount == other.utf8CodeUnitCount else { return false }
    // Safe: a static string is there for ever, and as long as it says.
    return unsafe utf8Start == other.utf8Start
      || memcmp(utf8Start, other.utf8Start, utf8CodeUnitCount) == 0
  }
}
