/// All settings of a server: one immutable value, checked as a whole, replaced as a whole.
public struct Settings: Sendable {
  /// The signing key and the team.
  public var musickit: MusicKit
  /// The tokens' lifetimes.
  public var token: Token
  /// The public listener.
  public var server: Server
  /// The listener for operators; nil if it is turned off.
  public var admin: Admin?
  /// Apple Music behind this server; nil if it is turned off.
  public var catalog: Catalog?
  /// Which caller may have what.
  public var access: Access
  /// The audit log of what the server granted and refused.
  public var audit: Audit
  /// How the server logs.
  public var log: Log
  /// The file that some of them were read from.
  public var configurationFile: String?
}
