import Glibc

/// The checkout that the tests were built from.
enum Repository {
  static let path = String("\(#filePath)".split(separator: "/").dropLast(4).map { "/" + $0 }.joined())

  /// Python with the packages of `Tests/requirements.txt`.
  static let python = unsafe getenv("TEST_PYTHON").map { unsafe String(cString: $0) } ?? "python3"

  /// The path of a script in `Tests/Python`.
  static func script(_ name: String) -> String { "\(path)/Tests/Python/\(name)" }
}
