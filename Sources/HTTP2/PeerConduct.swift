/// Counts the useless work that a peer causes, against its useful work: ratios, not rates, so there is no clock.
struct PeerConduct {
  private let limits: HTTP2Limits
  private var idleFrames = 0
  /// Twice the excess of streams cut short.
  private var resets = 0
  private var isFrameUseful = true

  init(_ limits: HTTP2Limits) { self.limits = limits }

  /// Adds `count` received frames, not yet known to be useful.
  mutating func noteFrames(_ count: Int) { idleFrames += count }
  mutating func beginFrame() { isFrameUseful = false }

  /// Records that the current frame is useful. A second call for the same frame does nothing.
  mutating func noteUse() {
    guard !isFrameUseful else { return }
    isFrameUseful = true
    // The 1 is for the frame itself, which was counted on arrival.
    forgive(1 + limits.framesPerUsefulFrame)
  }

  /// Records that we sent something useful, which the peer may have to acknowledge with window updates.
  mutating func noteSent() { forgive(limits.framesPerUsefulFrame) }

  /// Records the end of a client's stream: with a complete response to a usable request, or cut short by the client. Two
  /// complete responses offset one reset: if one did, a client could reset every other stream for ever.
  mutating func noteEnd(cutShort: Bool) { resets = max(0, resets + (cutShort ? 2 : -1)) }

  /// The kind of excess, or nil if the peer is within the limits.
  var flood: HTTP2Error.Flood? {
    if idleFrames > limits.idleFrames { return .idleFrames }
    return resets > 2 * limits.resets ? .resets : nil
  }

  private mutating func forgive(_ count: Int) { idleFrames = max(0, idleFrames - count) }
}

/// Counts the frames that start in a stream of bytes, by their lengths alone (RFC 9113 §4.1). The library does not report
/// the frames that it ignores, of unknown types or for closed streams, which cost as much to receive as others.
struct FrameScanner {
  /// The number of bytes until the next frame header.
  private var skipped: Int
  /// The length field received so far, and the number of received bytes of the frame header.
  private var length = 0
  private var headerCount = 0
  private var type: UInt8 = 0
  /// Whether a header block continues in the next frame (RFC 9113 §6.2, §6.10).
  private var awaitsContinuation = false
  /// The number of the last frame that has begun, and that of the first frame of the last header block or other frame.
  private var last = 0
  private var first = 0

  /// Starts at the beginning of a connection. The bytes of a client begin with a preface of 24 bytes (RFC 9113 §3.4).
  init(from role: HTTP2Role) { skipped = role == .client ? 24 : 0 }

  /// The frame or header block that has begun and is incomplete, by a number that no other has. Nil at a boundary.
  var incomplete: IncompleteFrame? {
    guard skipped > 0 || headerCount > 0 || awaitsContinuation else { return nil }
    return IncompleteFrame(number: first, isContent: headerCount == 0 && type == Self.data && !awaitsContinuation)
  }

  private static let data: UInt8 = 0
  private static let headers: UInt8 = 1
  private static let continuation: UInt8 = 9
  private static let endHeaders: UInt8 = 4

  /// Returns the number of frames that start in `bytes`, the next received bytes.
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
      switch headerCount {
      case 0..<3: length = length << 8 | Int(bytes[next])
      case 3: type = bytes[next]
      case 4 where type == Self.headers || type == Self.continuation:
        awaitsContinuation = bytes[next] & Self.endHeaders == 0
      default: break
      }
      if headerCount == 0 {
        last += 1
        if !awaitsContinuation { first = last }
      }
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

/// A frame, or a header block of several frames, that has begun and is incomplete.
public struct IncompleteFrame: Sendable, Equatable {
  /// A number that no other frame of the connection has.
  public let number: Int
  /// Whether it is a DATA frame, which may be long.
  public let isContent: Bool

  /// Creates a description of such a frame.
  public init(number: Int, isContent: Bool) { (self.number, self.isContent) = (number, isContent) }
}

/// The limits of a session: name, default, unit and reason.
public struct HTTP2Limits: Sendable, Equatable {
  /// The largest header section, in bytes as RFC 9113 §6.5.2 counts them (name, value and 32 for each field): 32 KiB,
  /// like HTTP/1.1's. It counts during decoding, because a small block of HPACK can expand to megabytes.
  public var fieldSection = 32_768
  /// The largest header section of a request that the session decodes to its end, so that the owner can respond with 431
  /// and the connection continues: 64 KiB, twice the limit, as HTTP/1.1 reads on after a refusal. A byte of HPACK can
  /// refer to 4 KiB, so a larger one ends the connection, and no more of it is decoded.
  public var refusedSection = 65_536
  /// The most fields in a header section or trailer section: 100. A field costs more to store than to send.
  public var fieldLines = 100
  /// The largest table of HPACK for what is sent, in bytes as RFC 7541 §4.1 counts them: 2 KiB, half of the protocol's
  /// default. Empty fields take up to six times their count in memory. The table for what is received keeps the default:
  /// Go's client 1.19 does not follow a smaller one, and its connections ended with COMPRESSION_ERROR.
  public var fieldTable = 2048
  /// The most streams open at once: 100, the minimum that RFC 9113 §6.5.2 recommends; for a client at most the peer's.
  public var concurrentStreams = 100
  /// The most unread content of a stream, which a stalled reader makes us keep, in bytes: 65 535 (RFC 9113 §6.9.2).
  public var streamWindow = 65_535
  /// The most content of all streams in flight, in bytes: 1 MiB. The session replenishes this window when content
  /// arrives, not when it is read. So a stalled reader does not block other streams. It bounds only content in flight.
  public var connectionWindow = 1_048_576
  /// The most queued content of one stream before `send` reports that there is no room, in bytes: 64 KiB. A peer that
  /// does not read can make us keep this much, plus the part that exceeded it.
  public var sendQueue = 65_536
  /// The excess of idle frames (SETTINGS, PING, PRIORITY, WINDOW_UPDATE, empty DATA, unknown types, informational
  /// responses, frames for closed streams) over what useful frames offset, in either direction: 1000.
  public var idleFrames = 1000
  /// The number of idle frames that one useful frame offsets: 8. A reader sends a window update for the stream and one
  /// for the connection with each part of content that it reads, and some readers read small parts.
  public var framesPerUsefulFrame = 8
  /// The excess of streams that a client cuts short, or makes us reset, or whose request has too large a header
  /// section, over half of those that end well: 200 (CVE-2023-44487, CVE-2025-8671). A scrolling list cancels many.
  public var resets = 200

  /// Creates the default limits.
  public init() {}
}
