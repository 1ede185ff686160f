import HTTPTypes

/// Copies fields of a caller's request by name, unless its `Connection` claims them for this hop.
struct FieldCopier<Fields: RequestFields> {
  private let caller: Fields
  private let connection: RequestFieldValue
  private let options: ConnectionOptions

  init(_ caller: Fields) {
    self.caller = caller
    connection = caller.value(of: "connection")
    if case .single(let value) = connection {
      options = ConnectionOptions(value)
    } else {
      options = ConnectionOptions([])
    }
  }

  /// Whether there is no field of that name.
  func isAbsent(_ name: StaticString) -> Bool {
    caller.value(of: name) == .absent
  }

  /// Copies the field of that name, in lower case, if there is one.
  ///
  /// - Parameter isSecret: Whether it is one word, and nothing that HPACK may keep (RFC 7541 §7.1.3).
  /// - Throws: If there are several, or the value is malformed.
  func copy(
    _ name: StaticString, upTo limit: Int, isSecret: Bool = false, to fields: inout HTTPFields
  ) throws(FieldRefusal) {
    switch caller.value(of: name) {
    case .absent: return
    case .repeated: throw .repeated(name)
    case .single(let value):
      // What several Connection fields name cannot be asked for; to guess could send on what was for this hop.
      guard connection != .repeated else { throw .repeated("connection") }
      guard options.count <= HeaderPolicy.longestValue else { throw .malformed("connection") }
      let lowest: UInt8 = isSecret ? 0x21 : 0x20
      guard !value.isEmpty, value.count <= limit, value.allSatisfy({ $0 >= lowest && $0 < 0x7F }) else {
        throw .malformed(name)
      }
      guard !options.names(name.description), let fieldName = HTTPField.Name(name.description) else { return }
      var field = HTTPField(name: fieldName, value: String(decoding: value, as: UTF8.self))
      if isSecret { field.indexingStrategy = .disallow }
      fields.append(field)
    }
  }
}
