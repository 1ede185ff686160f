/// A section of the settings. Each of its rows names a setting once: the path, the type, the property with its default, and
/// whether a reload uses a new value. An initializer with a reader returns nil if the section is invalid, or off.
protocol SettingsSection: Sendable, SendableMetatype {
  static var place: SectionPlace<Self> { get }
  static var rows: [SectionRow<Self>] { get }
  /// Creates the section with the default of each property.
  init()
}

struct SectionPlace<Section>: Sendable {
  private let get: @Sendable (Settings) -> Section?
  private let set: @Sendable (inout Settings, Section) -> Void

  init(_ path: any WritableKeyPath<Settings, Section> & Sendable) {
    get = { $0[keyPath: path] }
    set = { $0[keyPath: path] = $1 }
  }

  /// The place of a section that may be missing.
  init(_ path: any WritableKeyPath<Settings, Section?> & Sendable) {
    get = { $0[keyPath: path] }
    set = { $0[keyPath: path] = $1 }
  }

  func fixed<Value: Equatable & SendableMetatype>(_ part: any WritableKeyPath<Section, Value> & Sendable) -> FixedPart {
    FixedPart { kept, running in
      guard var own = get(kept), let other = get(running), own[keyPath: part] != other[keyPath: part] else {
        return false
      }
      own[keyPath: part] = other[keyPath: part]
      set(&kept, own)
      return true
    }
  }
}

struct SectionRow<Section>: Sendable {
  let setting: any SettingRow
  /// Takes the value if it is written. Returns false for an invalid one, which leaves the property as it is.
  fileprivate let read: @Sendable (inout Section, inout SettingsReader) -> Bool

  /// Creates the row of a setting that the section reads by itself.
  static func own(_ setting: any SettingRow) -> SectionRow { SectionRow(setting: setting) { _, _ in true } }
}

extension SettingsSection {
  static var known: [any SettingRow] { rows.map(\.setting) }

  /// Creates the row of a property, whose default is the setting's, or depends on the machine if there is an example. A
  /// reload keeps the property unless the row is live.
  static func row<Value: Equatable & SendableMetatype>(
    _ path: String, _ type: SettingType<Value>, _ property: any WritableKeyPath<Self, Value> & Sendable,
    example: String? = nil, isLive: Bool = false, _ text: String
  ) -> SectionRow<Self> {
    let setting = Setting(
      path, type, default: example == nil ? Self()[keyPath: property] : nil, example: example,
      fixed: isLive ? nil : place.fixed(property), text)
    return SectionRow(setting: setting) { section, reader in
      guard reader.isSet(path) else { return true }
      guard let value = reader.read(setting) else { return false }
      section[keyPath: property] = value
      return true
    }
  }

  /// Creates the row of a property that is nil by default, and if the value is invalid. A reload keeps the property, or the
  /// part that is `fixed`, unless the row is live.
  static func row<Value: Equatable & SendableMetatype>(
    _ path: String, _ type: SettingType<Value>, _ property: any WritableKeyPath<Self, Value?> & Sendable,
    isSecret: Bool = false, example: String, isLive: Bool = false, fixed: FixedPart? = nil, _ text: String
  ) -> SectionRow<Self> {
    let setting = Setting(
      path, type, isSecret: isSecret, example: example, fixed: isLive ? nil : fixed ?? place.fixed(property), text)
    return SectionRow(setting: setting) { section, reader in
      section[keyPath: property] = reader.read(setting)
      return true
    }
  }

  /// Reads every row, except those that the section reads by itself. Returns whether all are valid.
  @discardableResult mutating func read(_ reader: inout SettingsReader) -> Bool {
    Self.rows.reduce(true) { $1.read(&self, &reader) && $0 }
  }
}

/// The part of the settings that a row decides, and that a running server keeps until its restart.
struct FixedPart: Sendable {
  /// Replaces the part by that of the running settings. Returns whether it differed.
  let keep: @Sendable (inout Settings, _ running: Settings) -> Bool

  /// Whether there is the section at all. If not, the whole section is that of the running settings.
  static func presence<Section: SendableMetatype>(of section: any WritableKeyPath<Settings, Section?> & Sendable)
    -> FixedPart
  {
    FixedPart { kept, running in
      guard (kept[keyPath: section] == nil) != (running[keyPath: section] == nil) else { return false }
      kept[keyPath: section] = running[keyPath: section]
      return true
    }
  }

  func and(_ other: FixedPart) -> FixedPart {
    FixedPart { kept, running in
      let differed = keep(&kept, running)
      return other.keep(&kept, running) || differed
    }
  }
}

extension Settings {
  /// Returns these settings with all parts that are fixed while the server listens taken from `running`.
  package func keepingFixed(of running: Settings) -> Settings {
    var kept = self
    for row in Self.known { _ = row.fixed?.keep(&kept, running) }
    return kept
  }

  /// Returns the paths of the settings that differ from `running` and need a restart, in the order of the documents. The
  /// layers have `own` now and had `written` at the start, so of several settings for one thing only those that have
  /// changed have a name here.
  package func needingRestart(_ own: [String?], since running: Settings, _ written: [String?]) -> [String] {
    zip(Self.known, zip(own, written)).compactMap { row, texts in
      var kept = self
      return texts.0 != texts.1 && row.fixed?.keep(&kept, running) == true ? row.path : nil
    }
  }
}
