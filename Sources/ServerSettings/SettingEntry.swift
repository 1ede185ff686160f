import Bytes

/// A setting for the operator: its value without secrets, and where it was written.
package struct SettingEntry: Sendable, Equatable {
  package let path: String
  /// The value as JSON. Nil if the setting was not written and has no fixed default.
  package let value: String?
  /// Where it was written. Nil for a default.
  package let source: String?

  fileprivate static let redacted = "\"(secret)\""
}

extension SettingsLayers {
  /// Returns all settings in the order of `rows`.
  func entries(of rows: [any SettingRow]) -> [SettingEntry] {
    rows.map { row in
      let raw = values[row.path]
      return SettingEntry(
        path: row.path, value: raw.map { value(of: row, $0.content) } ?? row.defaultText.map(Self.json),
        source: raw.map { "\($0.source)" })
    }
  }

  private func value(of row: any SettingRow, _ content: RawSetting.Content) -> String {
    guard !row.isSecret else { return SettingEntry.redacted }
    switch content {
    case .secret: return SettingEntry.redacted
    case .json(let value): return value.redacted
    case .text(let text):
      // In a variable, numbers and strings look alike. An invalid one has no canonical form, and no server runs with it.
      return Self.json(row.isJSON5 ? text : row.canonical(content) ?? "null")
    }
  }

  private static func json(_ text: String) -> String {
    (try? JSON5Parser.parse(Array(text.utf8)))?.redacted ?? JSON5Value.string(text).redacted
  }
}

extension JSON5Value {
  /// The value as JSON (RFC 8259) without secrets: a digest is cut, because a program could guess a weak API key from it,
  /// and a text that may be a key or has credentials is left out.
  fileprivate var redacted: String {
    switch self {
    case .null: return "null"
    case .bool(let value): return "\(value)"
    case .integer(let value): return "\(value)"
    case .number(let text): return Double(text).flatMap { $0.isFinite ? "\($0)" : nil } ?? Self.quoted(text)
    case .string(let text):
      let isSecret = looksLikeKey(text) || Printable.holdsCredentials(text)
      return isSecret ? SettingEntry.redacted : Self.quoted(text)
    case .array(let elements): return "[\(elements.map(\.redacted).joined(separator: ","))]"
    case .object(let members):
      let texts = members.sorted { $0.key < $1.key }.map { name, value in
        "\(Self.quoted(name)):\(name == "sha256" ? value.beginning.redacted : value.redacted)"
      }
      return "{\(texts.joined(separator: ","))}"
    }
  }

  /// The first characters of a digest, or of each of several, as `doctor --url` names them.
  private var beginning: JSON5Value {
    switch self {
    case .string(let text): .string("\(text.prefix(8))…")
    case .array(let elements): .array(elements.map(\.beginning))
    default: .null
    }
  }

  private static func quoted(_ text: String) -> String {
    var bytes: [UInt8] = []
    bytes.append(jsonString: text)
    return String(decoding: bytes, as: UTF8.self)
  }
}
