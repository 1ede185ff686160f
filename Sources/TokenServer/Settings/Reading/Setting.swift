/// One known setting.
struct Setting<Value: Sendable>: Sendable {
  /// Its path in the file, the components joined by dots.
  let path: String
  let type: SettingType<Value>
  /// The value if the setting is not written; nil if it has no fixed default.
  let fallback: Value?
  /// Whether errors must not quote the value and flags must not carry it.
  let isSecret: Bool

  init(_ path: String, _ type: SettingType<Value>, default fallback: Value? = nil, isSecret: Bool = false) {
    self.path = path
    self.type = type
    self.fallback = fallback
    self.isSecret = isSecret
  }
}
