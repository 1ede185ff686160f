extension Settings {
  /// How long tokens live.
  public struct Token: Sendable, Equatable {
    /// From now to `exp`, unless a request asks for another.
    public var ttl: Duration
    /// The most that a request may ask for.
    public var maxTTL: Duration
    /// From `iat` to now: room for a caller's or Apple's clock that is behind ours.
    public var backdate: Duration
  }
}

extension Settings.Token {
  /// Apple's six months: no token may live longer.
  static let cap = 15_777_000

  static let ttl = Setting("token.ttl", .duration(seconds: 60...cap), default: .seconds(12 * 3600))
  static let maxTTL = Setting("token.maxTTL", .duration(seconds: 60...cap), default: .seconds(24 * 3600))
  static let backdate = Setting("token.backdate", .duration(seconds: 0...3600), default: .seconds(60))

  static var known: [KnownSetting] { [KnownSetting(ttl), KnownSetting(maxTTL), KnownSetting(backdate)] }

  init?(_ reader: inout SettingsReader) {
    let backdate = reader.read(Self.backdate)
    let maxTTL = reader.read(Self.maxTTL)
    guard let ttl = reader.read(Self.ttl), let maxTTL, let backdate else { return nil }
    if reader.isSet(Self.maxTTL.path), maxTTL < ttl {
      reader.fault(
        Self.maxTTL.path, problem: "is less than token.ttl",
        remedy: "write \"\(durationText(Int(ttl.components.seconds)))\" or more, or a lesser token.ttl")
    }
    self.init(ttl: ttl, maxTTL: max(ttl, maxTTL), backdate: backdate)
  }
}
