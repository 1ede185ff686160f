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
        isFailing: waiting.isFailing, isFull: !waiting.buffer.hasRoom(for: .tokenGrant), unrecorded: waiting.unrecorded,
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
      let (left, error) = unsafe newline.span.withUnsafeBytes { unsafe writeAll($0) }
      guard left == 0 else { return (bytes.count, error) }
      endsMidLine = false
    }
    let (left, error) = unsafe bytes.extracting(start...).withUnsafeBytes { unsafe writeAll($0) }
    let written = bytes.count - left
    if written > start { endsMidLine = bytes[written - 1] != UInt8(ascii: "\n") }
    tornRecord = batch.recordLength(before: written)
    return (left, error)
  }

  private func writeAll(_ bytes: UnsafeRawBufferPointer) -> (left: Int, error: Int32) {
    var written = 0
    while written < bytes.count {
      let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[written...])
      let count = unsafe Glibc.write(target.descriptor, rest.baseAddress, rest.count)
      if count > 0 {
        written += count
      } else if count < 0, errno == EAGAIN {
        waitUntilWritable()
      } else if count == 0 || errno != EINTR {
        return (bytes.count - written, count == 0 ? EIO : errno)
      }
    }
    return (0, 0)
  }

  /// Waits until a terminal or pipe is writable that this or another process has made non-blocking (`O_NONBLOCK`).
  private func waitUntilWritable() {
    var entry = pollfd(fd: target.descriptor, events: Int16(POLLOUT), revents: 0)
    unsafe poll(&entry, 1, 1000)
  }
}
