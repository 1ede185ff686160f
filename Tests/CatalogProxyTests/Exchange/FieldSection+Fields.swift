import HTTP1
import HTTPTypes

extension FieldSection {
  /// The parsed fields.
  var fields: HTTPFields {
    var fields = HTTPFields()
    for line in bytes.split(separator: UInt8(ascii: "\n")) {
      let parts = line.dropLast().split(separator: UInt8(ascii: ":"), maxSplits: 1)
      guard parts.count == 2, let name = HTTPField.Name(String(decoding: parts[0], as: UTF8.self)) else { continue }
      fields.append(HTTPField(name: name, value: String(decoding: parts[1].dropFirst(), as: UTF8.self)))
    }
    return fields
  }
}
