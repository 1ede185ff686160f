import Bytes

/// A buffer of log lines that wait to be written: a value.
///
/// Lines and records share the buffer in the order of their arrival, and each have a maximum of bytes of their own. Lines
/// without room are dropped and counted. Once there is room again, a line reports their number.
struct LogBuffer {
  private let capacity: Int
  private let format: LogFormat
  private(set) var bytes: [UInt8] = []
  /// The places of the records in `bytes`.
  private var records: [Range<Int>] = []
  /// The number of bytes of waiting lines, without records.
  private var lineBytes = 0
  /// The records that are not written yet: those in `bytes`, and those in the batch that was taken.
  private(set) var recordBytes = 0
  private(set) var recordCount = 0
  /// The number of lost lines that are not reported yet, and of all since the start.
  private(set) var dropped = 0
  private(set) var droppedInAll = 0

  init(capacity: Int, format: LogFormat) { (self.capacity, self.format) = (capacity, format) }

  func hasRoom(for rank: LineRank) -> Bool { (rank.isRecord ? recordBytes : lineBytes) < rank.room(in: capacity) }

  /// Appends the line that `write` writes, if there is room for it. Returns whether there was.
  @discardableResult
  mutating func append(_ rank: LineRank = .message, _ write: (inout [UInt8]) -> Void) -> Bool {
    let before = bytes.count
    write(&bytes)
    let length = bytes.count - before
    guard (rank.isRecord ? recordBytes : lineBytes) + length <= rank.room(in: capacity) else {
      bytes.removeSubrange(before...)
      drop(1)
      return false
    }
    if rank.isRecord {
      recordBytes += length
      recordCount += 1
      records.append(before..<bytes.count)
    } else {
      lineBytes += length
    }
    return true
  }

  /// Moves the waiting bytes into `batch`, and keeps the memory of `batch` for new lines.
  ///
  /// - Parameter isProbe: Whether a failed write is tried again. If nothing waits, the batch is then the report of the lost
  ///   lines, so that a log recovers although no caller causes another line.
  mutating func take(into batch: inout Batch, isProbe: Bool = false) {
    batch.reported = isProbe && bytes.isEmpty ? reportDropped(time: .now()) : 0
    batch.bytes.removeAll(keepingCapacity: true)
    batch.records.removeAll(keepingCapacity: true)
    swap(&batch.bytes, &bytes)
    swap(&batch.records, &records)
    lineBytes = 0
  }

  /// Whether records have used a quarter of their room.
  var isFilling: Bool { recordBytes > capacity / 4 }
  /// Whether there is something to write: lines, or the report of lost ones.
  var hasNews: Bool { !bytes.isEmpty || dropped > 0 }

  /// Keeps the records of a batch that could not be written, before the lines that came since, and its report.
  mutating func finish(_ batch: borrowing Batch, unwritten: Int) {
    if unwritten > 0 { dropped += batch.reported }
    let written = batch.bytes.count - unwritten
    var kept: [UInt8] = []
    var places: [Range<Int>] = []
    for record in batch.records {
      guard record.upperBound > written else {
        recordBytes -= record.count
        recordCount -= 1
        continue
      }
      places.append(kept.count..<kept.count + record.count)
      kept.append(contentsOf: batch.bytes[record])
    }
    guard !kept.isEmpty else { return }
    records = places + records.map { $0.lowerBound + kept.count..<$0.upperBound + kept.count }
    bytes = kept + bytes
  }

  mutating func drop(_ lines: Int) {
    dropped += lines
    droppedInAll += lines
  }

  /// Appends a line with the number of lost lines, if any were lost and the line fits. Returns that number, or 0.
  @discardableResult
  mutating func reportDropped(time: LineTime) -> Int {
    guard dropped > 0 else { return 0 }
    let lost = dropped
    let format = format
    dropped = 0
    append { bytes in
      format.line(to: &bytes, time, level: "warning", "log lines were dropped") { line in
        format.field(&line, json: #","log.dropped":"#, lost)
      }
    }
    // If the report itself does not fit, `append` has counted it as one dropped line.
    guard dropped > 0 else { return lost }
    dropped = lost
    droppedInAll -= 1
    return 0
  }

  /// Bytes that are being written.
  struct Batch {
    fileprivate(set) var bytes: [UInt8] = []
    fileprivate(set) var records: [Range<Int>] = []
    /// The number of lost lines that the batch, one line, reports; 0 for a batch of other lines.
    fileprivate(set) var reported = 0

    /// The bytes before `end` of the record that `end` is within; 0 if it is within none.
    func recordLength(before end: Int) -> Int {
      records.first { $0.contains(end) }.map { end - $0.lowerBound } ?? 0
    }

    /// The number of lines that are lost if so many bytes at the end are not written; records and reports stay.
    func lostLines(unwritten: Int) -> Int {
      guard unwritten > 0, reported == 0 else { return 0 }
      let written = bytes.count - unwritten
      let lines = bytes[written...].count { $0 == UInt8(ascii: "\n") }
      return lines - records.count { $0.upperBound > written }
    }
  }
}
