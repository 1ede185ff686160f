import Bytes
import Dispatch
import Glibc
import Locks

/// A sink that receives log lines from any thread, and writes them to a descriptor or a file on its own thread.
///
/// An event loop must not wait for a slow disk or a reader that has stopped. A line costs its caller a short critical
/// section, and no system call, except to arm a timer when the sink is idle. Lines are written together every 10 ms, so that
/// a busy server does not wake a second thread for each, or earlier if records have used a quarter of their room: otherwise
/// one client with 200,000 grants a second would fill it in that time, and push out the records of others.
///
/// Failing writes only lose lines, which are counted. Records of the audit log stay until they are written (``LineRank``).
/// The process must ignore `SIGPIPE`, so that a closed pipe is a failing write.
package final class LogSink: @unchecked Sendable {
  // Sendable: `target` and the variables are touched only on `queue`, which is serial.
  private let target: any LogTarget
  private let format: LogFormat
  /// Whether a person reads the lines at a terminal, each a short one with a colour.
  package let isForPerson: Bool
  package let filter: LogFilter
  private let queue = DispatchQueue(label: "log")
  private let waiting: Locked<Pending>
  private var batch = LogBuffer.Batch()
  private var endsMidLine = false
  /// The bytes of the first waiting record that the target has already, without the rest.
  private var tornRecord = 0
  /// The number of lost lines that the target knows.
  private var toldLostLines = 0

  private struct Pending {
    var buffer: LogBuffer
    var time = LineTime.now()
    var isScheduled = false
    /// Whether the next writing is ordered for now.
    var isHurried = false
    /// Whether the last write failed.
    var isFailing = false
    /// The number of grants and key events that had no room, and the time of the last one on the monotonic clock.
    var unrecorded = 0
    var lastUnrecorded: UInt64?
    /// The time of the last lost line of any kind, and of the last such audit record.
    var lastLost: UInt64?
    var lastLostRecord: UInt64?

    /// - Parameter isRefused: Whether what the line is about is not given either.
    mutating func noteLoss(of rank: LineRank, isRefused: Bool) {
      let now = DispatchTime.now().uptimeNanoseconds
      lastLost = now
      if rank.isOfAudit { lastLostRecord = now }
      guard rank.isRecord, !isRefused else { return }
      unrecorded += 1
      lastUnrecorded = now
    }
  }

  /// The maximum time that a line waits for others.
  private let delay: DispatchTimeInterval
  /// The pause after a failure: 100 ms.
  private static let pauseAfterFailure = DispatchTimeInterval.milliseconds(100)

  /// Creates a sink for `descriptor`, which the caller still owns and must keep open.
  ///
  /// - Parameter capacity: The most waiting bytes of lines, and of records.
  package convenience init(
    descriptor: Int32, format: LogFormat, isForPerson: Bool = false, filter: LogFilter = LogFilter(),
    capacity: Int = 1 << 20
  ) {
    self.init(
      target: FixedTarget(descriptor), format: format, isForPerson: isForPerson, filter: filter, capacity: capacity)
  }

  /// Only the sink uses `target` from now on.
  init(
    target: any LogTarget, format: LogFormat, isForPerson: Bool = false, filter: LogFilter = LogFilter(),
    capacity: Int = 1 << 20, delay: DispatchTimeInterval = .milliseconds(10)
  ) {
    (self.target, self.format, self.isForPerson) = (target, format, isForPerson)
    (self.filter, self.delay) = (filter, delay)
    waiting = Locked(Pending(buffer: LogBuffer(capacity: capacity, format: format)))
  }

  /// Logs one request, without allocating memory.
  package func log(_ record: AccessRecord) {
    append(.access) { bytes, format, time in
      isForPerson
        ? record.appendForPerson(to: &bytes, time: time) : record.append(to: &bytes, format: format, time: time)
    }
  }

  /// Logs one access decision. For a person, a grant has no line, because that of the request shows it.
  @discardableResult
  func log(_ record: AuditRecord, refusesWhileFailing: Bool = false) -> Bool {
    if isForPerson, record.outcome == .granted { return true }
    return append(LineRank(record), refusesWhileFailing: refusesWhileFailing) { bytes, format, time in
      isForPerson
        ? record.appendForPerson(to: &bytes, time: time) : record.append(to: &bytes, format: format, time: time)
    }
  }

  /// Appends the one line that `write` writes, with the present time. Returns whether it was taken.
  ///
  /// - Parameter refusesWhileFailing: Whether to take no line of a grant after a failed write. The grant is then not given
  ///   either, so it does not count as unrecorded.
  @discardableResult
  func append(
    _ rank: LineRank = .message, refusesWhileFailing: Bool = false,
    _ write: (inout [UInt8], LogFormat, LineTime) -> Void
  ) -> Bool {
    let (isTaken, mustSchedule, mustHurry) = waiting.withLock { waiting in
      let mustWait = refusesWhileFailing && rank.isRecord
      if mustWait, waiting.isFailing { return (false, false, false) }
      waiting.time.set(milliseconds: LineTime.present())
      let time = waiting.time
      let isTaken = waiting.buffer.append(rank) { write(&$0, format, time) }
      if !isTaken { waiting.noteLoss(of: rank, isRefused: mustWait) }
      let mustHurry = !waiting.isHurried && !waiting.isFailing && waiting.buffer.isFilling
      if mustHurry { waiting.isHurried = true }
      defer { waiting.isScheduled = true }
      return (isTaken, !waiting.isScheduled, mustHurry)
    }
    if mustSchedule { schedule() }
    if mustHurry { queue.asyncAfter(deadline: .now()) { self.drain() } }
    return isTaken
  }

  /// - Parameter hasOnlyRecords: Whether every line is an audit record.
  func recordingState(hasOnlyRecords: Bool) -> AuditLog.RecordingState {
    func since(_ time: UInt64?) -> Duration? {
      time.map { .nanoseconds(Int64(clamping: DispatchTime.now().uptimeNanoseconds &- $0)) }
    }
    return waiting.withLock { waiting in
      AuditLog.RecordingState(
        isFailing: waiting.isFailing, isFull: waiting.buffer.isFull, unrecorded: waiting.unrecorded,
        sinceUnrecorded: since(waiting.lastUnrecorded),
        sinceLost: since(hasOnlyRecords ? waiting.lastLost : waiting.lastLostRecord))
    }
  }

  /// Waits for all lines so far, or for `timeout`, at the end of the process. Returns whether all are written.
  @discardableResult
  package func flush(timeout: Duration = .seconds(1)) -> Bool {
    let done = DispatchSemaphore(value: 0)
    // Not `async`, which blocks as long as the system grants no thread.
    queue.asyncAfter(deadline: .now() + .milliseconds(1)) {
      self.drain()
      self.drain()  // writes the report of lines that the first call could not write
      done.signal()
    }
    return done.wait(timeout: .now() + timeout / .seconds(1)) == .success
  }

  /// Prepares the target at once for the next line, so that a file that was moved has a successor.
  func reopen() {
    queue.asyncAfter(deadline: .now() + .milliseconds(1)) {
      if self.target.prepare() { (self.endsMidLine, self.tornRecord) = (false, 0) }
    }
  }

  /// The number of records that wait, also while they are being written.
  var waitingRecords: Int { waiting.withLock { $0.buffer.recordCount } }
  /// Since the start.
  package var lostLines: Int { waiting.withLock { $0.buffer.droppedInAll } }

  private func schedule() { queue.asyncAfter(deadline: .now() + delay) { self.drainAndReschedule() } }

  /// Tries again later, as long as the sink has an owner: nothing else ends these attempts.
  private func scheduleAfterFailure() {
    queue.asyncAfter(deadline: .now() + Self.pauseAfterFailure) { [weak self] in
      self?.drainAndReschedule(isProbe: true)
    }
  }

  private func drainAndReschedule(isProbe: Bool = false) {
    drain(isProbe: isProbe)
    let (mustSchedule, isFailing) = waiting.withLock { waiting in
      waiting.isScheduled = waiting.isFailing ? waiting.buffer.hasNews : !waiting.buffer.bytes.isEmpty
      return (waiting.isScheduled, waiting.isFailing)
    }
    if mustSchedule { isFailing ? scheduleAfterFailure() : schedule() }
  }

  private func drain(isProbe: Bool = false) {
    waiting.withLock { waiting in
      waiting.isHurried = false
      waiting.buffer.take(into: &batch, isProbe: isProbe)
    }
    guard !batch.bytes.isEmpty else { return }
    if target.prepare() { (endsMidLine, tornRecord) = (false, 0) }
    let (unwritten, error) = writeBatch()
    let lost = batch.lostLines(unwritten: unwritten)
    let lostInAll = waiting.withLock { waiting in
      waiting.isFailing = unwritten > 0
      waiting.buffer.finish(batch, unwritten: unwritten)
      // Only after a success: on a full disk the report would also be lost.
      if lost > 0 { waiting.lastLost = DispatchTime.now().uptimeNanoseconds }
      if unwritten > 0 { waiting.buffer.drop(lost) } else { waiting.buffer.reportDropped(time: .now()) }
      return waiting.buffer.droppedInAll
    }
    target.finish(lostLines: lostInAll - toldLostLines, error: error)
    toldLostLines = lostInAll
  }

  /// Writes the batch without a time limit. Returns how many bytes at the end could not be written, and the error.
  private func writeBatch() -> (left: Int, error: Int32) {
    let lines = batch.bytes
    let bytes = lines.span
    // A record that was cut short is the first of the next batch, and goes on where it was cut.
    let start = tornRecord
    if endsMidLine, start == 0 {
      let newline: [UInt8] = [UInt8(ascii: "\n")]
      let (left, error) = unsafe newline.span.withUnsafeBytes { unsafe target.write($0) }
      guard left == 0 else { return (bytes.count, error) }
      endsMidLine = false
    }
    let (left, error) = unsafe bytes.extracting(start...).withUnsafeBytes { unsafe target.write($0) }
    let written = bytes.count - left
    if written > start { endsMidLine = bytes[written - 1] != UInt8(ascii: "\n") }
    tornRecord = batch.recordLength(before: written)
    return (left, error)
  }
}

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

  /// Whether the grant of a token had no room since a record was last written. Some are longer, so the bytes do not tell.
  private(set) var isFull = false

  /// Appends the line that `write` writes, if there is room for it. Returns whether there was.
  @discardableResult
  mutating func append(_ rank: LineRank = .message, _ write: (inout [UInt8]) -> Void) -> Bool {
    let before = bytes.count
    write(&bytes)
    let length = bytes.count - before
    guard (rank.isRecord ? recordBytes : lineBytes) + length <= rank.room(in: capacity) else {
      bytes.removeSubrange(before...)
      if rank == .tokenGrant { isFull = true }
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
        isFull = false
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
    func recordLength(before end: Int) -> Int { records.first { $0.contains(end) }.map { end - $0.lowerBound } ?? 0 }

    /// The number of lines that are lost if so many bytes at the end are not written; records and reports stay.
    func lostLines(unwritten: Int) -> Int {
      guard unwritten > 0, reported == 0 else { return 0 }
      let written = bytes.count - unwritten
      let lines = bytes[written...].count { $0 == UInt8(ascii: "\n") }
      return lines - records.count { $0.upperBound > written }
    }
  }
}
