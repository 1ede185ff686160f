/// Every limit of a session: name, default, unit and reason.
public struct HTTP2Limits: Sendable, Equatable {
  /// Largest header section, in bytes as RFC 9113 §6.5.2 counts them (32 more for each field than its name and value
  /// have): 32 KiB, like HTTP/1.1's. Told to the peer. A small block of HPACK can stand for megabytes, so it is counted
  /// while it is decoded.
  public var fieldSection = 32_768

  /// Most fields in a header section, and most in a trailer section: 100. Each costs more to keep than to send.
  public var fieldLines = 100

  /// Streams open at once: 100, the least that RFC 9113 §6.5.2 advises. For a server what it allows; for a client what
  /// it uses at most, should the peer allow more.
  public var concurrentStreams = 100

  /// Content of one stream that is received before the reader takes it, in bytes: 65 535, the protocol's own default
  /// (RFC 9113 §6.9.2). A reader that stalls makes the session keep at most this much.
  public var streamWindow = 65_535

  /// Content of all streams on its way at once, in bytes: 1 MiB. The session replenishes it when content arrives, not
  /// when it is read, so a stream whose reader stalls does not block the others. It bounds only what is on its way.
  public var connectionWindow = 1_048_576

  /// Content of one stream waiting to be sent beyond which `send` says that there is no room, in bytes: 64 KiB. What a
  /// peer that does not read can make us keep, besides the part that went over it.
  public var sendQueue = 65_536

  /// Frames that neither ask nor carry anything (SETTINGS, PING, PRIORITY, WINDOW_UPDATE, empty DATA, unknown types,
  /// informational responses, whatever is for closed streams): 1000 more than useful frames make up for. Each useful
  /// frame, either way, makes up for ``framesPerUsefulFrame``.
  public var idleFrames = 1000

  /// How many idle frames one useful frame makes up for: 8. A window update for its stream and one for the connection
  /// go with each part of content that a reader takes, and some read in small parts.
  public var framesPerUsefulFrame = 8

  /// Streams that a client opens and cuts short, or has us cut short by breaking the protocol, beyond those that were
  /// answered in whole: 200 (CVE-2023-44487, CVE-2025-8671). A list that scrolls cancels many requests at once.
  public var resets = 200

  /// The defaults.
  public init() {}
}
