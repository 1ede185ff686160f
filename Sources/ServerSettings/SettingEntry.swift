import Bytes
package import JSON

/// A setting for the operator: its value without secrets, and where it was written.
package struct SettingEntry: Sendable, Equatable {
  package let path: String
  /// The value. Nil if the setting was not written and has no fixed default.
  package let value: JSONValue?
  /// Where it was written. Nil for a default.
  package let source: String?

  fileprivate static let redacted: JSONValue = "(secret)"
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

  private func value(of row: any SettingRow, _ content: RawSetting.Content) -> JSONValue {
    guard !row.isSecret else { return SettingEntry.redacted }
    switch content {
    case .secret: return SettingEntry.redacted
    case .json(let value): return value.redacted
    case .text(let text):
      // In a variable, numbers and strings look alike. An invalid one has no canonical form, and no server runs with it.
      return Self.json(row.isJSON5 ? text : row.canonical(content) ?? "null")
    }
  }

  private static func json(_ text: String) -> JSONValue {
    ((try? JSON5Parser.parse(text)) ?? .string(text)).redacted
  }
}

extension JSON5Value {
  /// The value without secrets: a digest is cut, because a program could guess a weak API key from it, and a text that may
  /// be a key or has credentials is left out.
  fileprivate var redacted: JSONValue {
    switch self {
    case .null: .null
    case .bool(let value): .bool(value)
    case .integer(let value): .whole(value)
    case .number(let text): Double(text).flatMap { $0.isFinite ? .number("\($0)") : nil } ?? .text(text)
    case .string(let text):
      looksLikeKey(text) || Printable.holdsCredentials(text) ? SettingEntry.redacted : .text(text)
    case .array(let elements): .array(elements.map(\.redacted))
    case .object(let members):
      .object(
        of: members.sorted { $0.key < $1.key }.map { name, value in
          (name, name == "sha256" ? value.beginning.redacted : value.redacted)
        })
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
}
