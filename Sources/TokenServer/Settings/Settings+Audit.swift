extension Settings {
  /// The audit log of what the server granted and refused.
  public struct Audit: Sendable, Equatable {
    /// The file of the audit log; nil to write it to the server's log.
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
