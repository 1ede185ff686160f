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
