/// Why a text is not JSON5, and where.
///
/// It quotes nothing of the text: a configuration may hold a signing key.
struct JSON5Failure: Error, Equatable, CustomStringConvertible {
  /// Counted from 1.
  let line: Int
  /// Counted from 1, in bytes.
  let column: Int
  /// What is wrong there: `a "," or "}" is missing`.
  let problem: String

  var description: String { "line \(line), column \(column): \(problem)" }
}
