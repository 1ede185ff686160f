public import HTTPTypes

/// Field lines that many responses share, written once: a response copies their bytes.
public struct FieldSection: Sendable, Equatable {
  let bytes: [UInt8]

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
