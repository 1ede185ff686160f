/// Writes JSON (RFC 8259) whose members stay in the order in which they are given.
enum JSONText {
  /// A string, quoted; what is not printable ASCII is escaped, so that the text is safe on any terminal.
  static func string(_ text: String) -> String {
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

  /// An array of values that are JSON already.
  static func array(_ values: [String]) -> String {
    "[" + values.joined(separator: ",") + "]"
  }

  /// An object of members whose values are JSON already; one without a value is left out.
  static func object(_ members: [(name: String, value: String?)]) -> String {
    "{" + members.compactMap { member in member.value.map { "\(string(member.name)):\($0)" } }.joined(separator: ",")
      + "}"
  }
}
