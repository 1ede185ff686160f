/// One known setting.
struct Setting<Value: Sendable>: Sendable {
  /// Its path in the file, the components joined by dots.
  let path: String
  let type: SettingType<Value>
  /// What holds if nobody writes it; nil if there is no fixed value.
  let fallback: Value?
  /// Whether faults must not quote it and flags must not carry it.
  let isSecret: Bool

  init(_ path: String, _ type: SettingType<Value>, default fallback: Value? = nil, isSecret: Bool = false) {
    self.path = path
    self.type = type
    self.fallback = fallback
    self.isSecret = isSecret
  }
}
