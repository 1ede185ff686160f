/// The part of the settings that a row decides, and that a running server keeps until its restart.
struct FixedPart: Sendable {
  /// Whether the part of both differs.
  let differs: @Sendable (Settings, Settings) -> Bool
  /// Takes the part from the running settings.
  let keep: @Sendable (inout Settings, _ running: Settings) -> Void

  /// A part that all settings have.
  static func of<Value: Equatable & SendableMetatype>(_ part: any WritableKeyPath<Settings, Value> & Sendable)
    -> FixedPart
  {
    FixedPart(
      differs: { $0[keyPath: part] != $1[keyPath: part] },
      keep: { kept, running in kept[keyPath: part] = running[keyPath: part] })
  }

  /// A part of a section that may be missing.
  static func of<Section: SendableMetatype, Value: Equatable & SendableMetatype>(
    _ section: any WritableKeyPath<Settings, Section?> & Sendable,
    _ part: any WritableKeyPath<Section, Value> & Sendable
  ) -> FixedPart {
    FixedPart(
      differs: { one, other in
        guard let one = one[keyPath: section], let other = other[keyPath: section] else { return false }
        return one[keyPath: part] != other[keyPath: part]
      },
      keep: { kept, running in
        guard var own = kept[keyPath: section], let other = running[keyPath: section] else { return }
        own[keyPath: part] = other[keyPath: part]
        kept[keyPath: section] = own
      })
  }

  /// Whether there is the section at all. If not, the whole section is that of the running settings.
  static func presence<Section: SendableMetatype>(of section: any WritableKeyPath<Settings, Section?> & Sendable)
    -> FixedPart
  {
    FixedPart(
      differs: { ($0[keyPath: section] == nil) != ($1[keyPath: section] == nil) },
      keep: { kept, running in
        guard (kept[keyPath: section] == nil) != (running[keyPath: section] == nil) else { return }
        kept[keyPath: section] = running[keyPath: section]
      })
  }

  /// This part and another one.
  func and(_ other: FixedPart) -> FixedPart {
    FixedPart(
      differs: { differs($0, $1) || other.differs($0, $1) },
      keep: { kept, running in
        keep(&kept, running)
        other.keep(&kept, running)
      })
  }
}

extension Settings {
  /// Returns these settings with all parts that are fixed while the server listens taken from `running`.
  package func keepingFixed(of running: Settings) -> Settings {
    var kept = self
    for row in Self.known { row.fixed?.keep(&kept, running) }
    return kept
  }

  /// Returns the paths of the settings that differ from `running` and need a restart. Both have what their layers had.
  package func needingRestart(_ own: [String?], since running: Settings, _ written: [String?]) -> [String] {
    zip(Self.known, zip(own, written)).compactMap { row, texts in
      guard let fixed = row.fixed, texts.0 != texts.1, fixed.differs(self, running) else { return nil }
      return row.path
    }
  }
}

extension Settings.Loaded {
  /// Returns the paths of the settings that differ from `running` and need a restart, in the order of the documents.
  ///
  /// - Parameter written: What the layers had at the start, so that of several settings for one thing only those that
  ///   have changed have a name here.
  package func needingRestart(since running: Settings, written: [String?]) -> [String] {
    settings.needingRestart(self.written, since: running, written)
  }
}
