import Bytes
import JSON

/// What holds for every JSON object in a token.
enum MemberRules {
  /// Readers differ in which of two equal names they take, so they would read different tokens (RFC 7519 §4).
  static func checkRepeats(of object: JSONValue, rule: String, into inspection: inout Inspection) {
    let names = object.repeatedNames.map { Printable.quote($0) }
    inspection.add(
      rule, names.isEmpty, pass: "No member occurs twice.",
      fail: "It has \(names.joined(separator: ", ")) more than once; readers differ in which one they take.")
  }
}
