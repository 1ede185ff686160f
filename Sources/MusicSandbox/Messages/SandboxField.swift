/// A field line of a message: its name in any case, and its value.
public struct SandboxField: Sendable, Equatable {
  /// The name; compared without regard to the case of ASCII letters.
  public var name: String
  /// The value.
  public var value: String

  /// A field line.
  public init(_ name: String, _ value: String) {
    (self.name, self.value) = (name, value)
  }
}

extension [SandboxField] {
  /// The values of all lines of that name, which is in lower case. One that is not ASCII reads as a single replacement
  /// character, which is wrong everywhere: only ASCII compares in linear time as a `String`.
  func values(of lowercaseName: String) -> [String] {
    filter { $0.name.lowercased() == lowercaseName }.map { field in
      field.value.utf8.allSatisfy { $0 < 0x80 } ? field.value : "\u{FFFD}"
    }
  }

  /// The value if there is exactly one line of that name: of a credential that occurs twice, none counts.
  func single(_ lowercaseName: String) -> String? {
    let values = values(of: lowercaseName)
    return values.count == 1 ? values[0] : nil
  }

  /// Replaces the lines of that name.
  mutating func set(_ name: String, _ value: String) {
    let lowercaseName = name.lowercased()
    removeAll { $0.name.lowercased() == lowercaseName }
    append(SandboxField(name, value))
  }
}
