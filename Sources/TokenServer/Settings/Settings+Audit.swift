extension Settings {
  /// The record of what was granted and refused.
  public struct Audit: Sendable, Equatable {
    /// The file that it goes to; nil for the log.
    public var file: String?
  }
}

extension Settings.Audit {
  static let file = Setting("audit.file", .path)

  static var known: [KnownSetting] { [KnownSetting(file)] }

  /// Nil if it is faulty.
  init?(_ reader: inout SettingsReader) {
    guard reader.isSet(Self.file.path) else {
      self.init(file: nil)
      return
    }
    guard let file = reader.read(Self.file) else { return nil }
    self.init(file: file)
  }
}
