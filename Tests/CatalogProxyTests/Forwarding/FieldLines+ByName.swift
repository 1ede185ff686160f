import HTTP1

extension FieldLines {
  /// The value of each field by its name in lower case, several lines joined by commas.
  var byName: [String: String] {
    let span = bytes.span
    let lines = lines.map { (span.string(in: $0.name).lowercased(), span.string(in: $0.value)) }
    return Dictionary(lines, uniquingKeysWith: { "\($0), \($1)" })
  }
}
