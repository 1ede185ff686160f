public import HTTPTypes

/// Field lines that many responses share, written once: a response copies their bytes.
public struct FieldSection: Sendable, Equatable {
  let bytes: [UInt8]

  /// The fields again, for where they are not sent as lines.
  public var fields: HTTPFields {
    var fields = HTTPFields()
    for line in bytes.split(separator: UInt8(ascii: "\n")) {
      let parts = line.dropLast().split(separator: UInt8(ascii: ":"), maxSplits: 1)
      guard parts.count == 2, let name = HTTPField.Name(String(decoding: parts[0], as: UTF8.self)) else { continue }
      fields.append(HTTPField(name: name, value: String(decoding: parts[1].dropFirst(), as: UTF8.self)))
    }
    return fields
  }

  /// No field lines.
  public static let empty = FieldSection([:])

  /// The lines of `fields`, as ``ResponseSerializer`` writes them. Date, and what frames a message or a connection, is
  /// the server's to write for each response, and is left out.
  public init(_ fields: HTTPFields) {
    var bytes: [UInt8] = []
    for field in fields where ResponseSerializer.Role(field.name, hasRequestID: true) == .plain {
      bytes.appendFieldLine(field)
    }
    self.bytes = bytes
  }
}
