/// Everything that a server is told: one immutable value, checked as a whole, swapped as a whole.
public struct Settings: Sendable {
  /// Who signs.
  public var musickit: MusicKit
  /// How long tokens live.
  public var token: Token
  /// The public listener.
  public var server: Server
  /// The listener for operators; nil if it is turned off.
  public var admin: Admin?
  /// Apple Music behind this server; nil if it is turned off.
  public var catalog: Catalog?
  /// Who may have what.
  public var access: Access
  /// The record of what was granted and refused.
  public var audit: Audit
  /// How the server logs.
  public var log: Log
  /// The file that some of them were read from.
  public var configurationFile: String?
}
