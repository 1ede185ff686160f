/// Writes JSON (RFC 8259) and keeps the order of members.
package enum JSONText {
  /// Returns a quoted string. All characters except printable ASCII are escaped, so the text is safe on any terminal.
  package static func string(_ text: String) -> String {
    var json = "\""
    for unit in text.utf16 {
      switch unit {
      case 0x22, 0x5C: json += "\\" + String(UnicodeScalar(UInt8(unit)))
      case 0x20..<0x7F: json.unicodeScalars.append(UnicodeScalar(UInt8(unit)))
      default:
        let digits = String(unit, radix: 16)
        json += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      }
    }
    return json + "\""
  }

  /// Returns an array of values that are JSON already.
  package static func array(_ values: [String]) -> String {
    "[" + values.joined(separator: ",") + "]"
  }

  /// Returns an object of members with values that are JSON already, and leaves out members without a value.
  package static func object(_ members: [(name: String, value: String?)]) -> String {
    "{" + members.compactMap { member in member.value.map { "\(string(member.name)):\($0)" } }.joined(separator: ",")
      + "}"
  }
}
