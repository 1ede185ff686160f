import Bytes

/// Log lines that wait to be written: a value, bounded in bytes.
///
/// When it is full, lines are dropped and counted; once there is room again, a line says how many.
struct LogBuffer {
  private let capacity: Int
  private let format: LogFormat
  private(set) var bytes: [UInt8] = []
  /// Lines that were lost and not yet reported.
  private(set) var dropped = 0
  /// All lines that were lost since the start.
  private(set) var droppedInAll = 0

  init(capacity: Int, format: LogFormat) {
    self.capacity = capacity
    self.format = format
  }

  /// Appends the line that `write` appends, if there is room for it.
  mutating func append(_ write: (inout [UInt8]) -> Void) {
    let before = bytes.count
    write(&bytes)
    guard bytes.count > capacity else { return }
    bytes.removeSubrange(before...)
    drop(1)
  }

  /// Takes what waits, and leaves `spare`'s memory in its place.
  mutating func take(into spare: inout [UInt8]) {
    spare.removeAll(keepingCapacity: true)
    swap(&spare, &bytes)
  }

  /// Counts lines that are lost.
  mutating func drop(_ lines: Int) {
    dropped += lines
    droppedInAll += lines
  }

  /// Says in a line how many were lost, if any were and it fits.
  mutating func reportDropped(time: WallTime) {
    guard dropped > 0 else { return }
    let lost = dropped
    let format = format
    dropped = 0
    append { bytes in
      format.begin(&bytes, time: time, level: "warning", message: "log lines were dropped")
      format.field(&bytes, literal: "log.dropped", lost)
      format.end(&bytes)
    }
    // Had the report itself not fitted, it would count as one line dropped.
    if dropped > 0 {
      dropped = lost
      droppedInAll -= 1
    }
  }
}
