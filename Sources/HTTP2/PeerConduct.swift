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
