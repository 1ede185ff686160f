/// What a ``LogSink`` writes to. It is asked on the sink's own thread only, and may take its time.
protocol LogTarget: AnyObject {
  /// Where lines go now; -1 if there is no such place.
  var descriptor: Int32 { get }

  /// Makes ready for lines that are about to be written.
  ///
  /// - Returns: Whether they go to another place than the ones before.
  func prepare() -> Bool

  /// Learns what became of them.
  ///
  /// - Parameters:
  ///   - lostLines: How many of them could not be written.
  ///   - error: The error number of the write that failed, or 0.
  func finish(lostLines: Int, error: Int32)
}

/// A descriptor that its owner has opened and keeps.
final class FixedTarget: LogTarget {
  let descriptor: Int32

  init(_ descriptor: Int32) {
    self.descriptor = descriptor
  }

  func prepare() -> Bool { false }
  func finish(lostLines: Int, error: Int32) {}
}
