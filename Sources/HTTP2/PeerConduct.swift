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
