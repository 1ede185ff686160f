/// Counts what a peer makes us do for nothing, against what it does that is of use.
///
/// Ratios, not rates: there is no clock here, and what is cheap for its use may come as fast as it likes. The library
/// bounds CONTINUATION frames and what waits to be acknowledged; this bounds the rest.
struct PeerConduct {
  private let limits: HTTP2Limits
  private var idleFrames = 0
  private var resets = 0
  private var isFrameUseful = true

  init(_ limits: HTTP2Limits) { self.limits = limits }

  /// So many frames arrived, of which nothing useful has been seen yet.
  mutating func noteFrames(_ count: Int) { idleFrames += count }

  /// The library looks at the next one.
  mutating func beginFrame() { isFrameUseful = false }

  /// The frame that began last turns out to be useful; said again of the same frame, this does nothing.
  mutating func noteUse() {
    guard !isFrameUseful else { return }
    isFrameUseful = true
    // The frame itself, too, was counted when it arrived.
    forgive(1 + limits.framesPerUsefulFrame)
  }

  /// We have sent something that the peer asked for, which it may have to acknowledge with window updates.
  mutating func noteSent() { forgive(limits.framesPerUsefulFrame) }

  /// A client's stream ended, answered in whole or cut short by the client's doing.
  mutating func noteEnd(cutShort: Bool) { resets = max(0, resets + (cutShort ? 1 : -1)) }

  /// What there is too much of.
  var flood: HTTP2Error.Flood? {
    if idleFrames > limits.idleFrames { return .idleFrames }
    return resets > limits.resets ? .resets : nil
  }

  private mutating func forgive(_ count: Int) { idleFrames = max(0, idleFrames - count) }
}

/// Counts the frames that begin in a stream of bytes, by their lengths alone (RFC 9113 §4.1).
///
/// The library says nothing of frames that it passes over, those of unknown types or for closed streams among them, but
/// they cost as much to receive.
struct FrameScanner {
  /// Bytes until the next header.
  private var skipped: Int
  /// What has arrived of a header, and how many bytes of it.
  private var length = 0
  private var headerCount = 0

  /// At the beginning of a connection: what a client sends has a preface of 24 bytes (RFC 9113 §3.4).
  init(from role: HTTP2Role) { skipped = role == .client ? 24 : 0 }

  /// How many frames begin in `bytes`, the next ones that arrived.
  mutating func count(_ bytes: Span<UInt8>) -> Int {
    var frames = 0
    var next = 0
    while next < bytes.count {
      if skipped > 0 {
        let step = min(skipped, bytes.count - next)
        skipped -= step
        next += step
        continue
      }
      if headerCount < 3 { length = length << 8 | Int(bytes[next]) }
      headerCount += 1
      next += 1
      if headerCount == 9 {
        frames += 1
        (skipped, length, headerCount) = (length, 0, 0)
      }
    }
    return frames
  }
}

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
