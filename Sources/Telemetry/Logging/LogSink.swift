import Bytes
import Dispatch
import Glibc
import Locks

/// Takes log lines from any thread and writes them to a descriptor, or to a file, from a thread of its own.
///
/// An event loop must not wait for a slow disk or a reader that has stopped: a line costs its caller a short critical
/// section and no system call but, when the sink is at rest, the one that arms a timer. Lines are written together at
/// most every 10 ms, so that a busy server does not wake a second thread for each.
///
/// Failing writes lose lines, which are counted, and nothing else. The process must ignore `SIGPIPE`, as every server
/// does, for a closed pipe to be a failing write.
public final class LogSink: @unchecked Sendable {
  // Sendable because `target`, `spare` and `endsMidLine` are touched only on `queue`, which is serial.
  private let target: any LogTarget
  private let format: LogFormat
  private let isForPerson: Bool
  private let queue = DispatchQueue(label: "log")
  private let waiting: Locked<Waiting>
  private var spare: [UInt8] = []
  private var endsMidLine = false

  private struct Waiting {
    var buffer: LogBuffer
    var isScheduled = false
  }

  /// How long lines may wait for company.
  private static let delay = DispatchTimeInterval.milliseconds(10)

  /// A sink for `descriptor`, which stays the caller's and must stay open.
  ///
  /// - Parameters:
  ///   - isForPerson: Whether a person reads the lines at a terminal: then a request is a short line with a colour.
  ///   - capacity: The bytes that may wait; lines beyond are dropped and counted.
  public convenience init(
    descriptor: Int32, format: LogFormat, isForPerson: Bool = false, capacity: Int = 1 << 20
  ) {
    self.init(target: FixedTarget(descriptor), format: format, isForPerson: isForPerson, capacity: capacity)
  }

  /// A sink for `target`, which is the sink's alone from now on.
  init(target: any LogTarget, format: LogFormat, isForPerson: Bool = false, capacity: Int = 1 << 20) {
    self.target = target
    self.format = format
    self.isForPerson = isForPerson
    waiting = Locked(Waiting(buffer: LogBuffer(capacity: capacity, format: format)))
  }

  /// Logs one request, without allocating memory.
  public func log(_ record: AccessRecord) {
    append { bytes, format in
      if isForPerson {
        record.appendForPerson(to: &bytes, time: .now())
      } else {
        record.append(to: &bytes, format: format, time: .now())
      }
    }
  }

  /// Appends the one line that `write` appends.
  func append(_ write: (inout [UInt8], LogFormat) -> Void) {
    let mustSchedule = waiting.withLock { waiting in
      waiting.buffer.append { write(&$0, format) }
      defer { waiting.isScheduled = true }
      return !waiting.isScheduled
    }
    if mustSchedule { schedule() }
  }

  /// Waits until every line so far is written, or until `timeout` has passed: for the end of the process.
  ///
  /// - Returns: Whether it is done.
  @discardableResult
  public func flush(timeout: Duration = .seconds(1)) -> Bool {
    let done = DispatchSemaphore(value: 0)
    // Not `async`, which waits for as long as the system grants no thread.
    queue.asyncAfter(deadline: .now() + .milliseconds(1)) {
      self.drain()
      self.drain()  // the report of what the first one could not write
      done.signal()
    }
    return done.wait(timeout: .now() + timeout / .seconds(1)) == .success
  }

  /// Lines that were lost and not yet reported in the log.
  var droppedLines: Int { waiting.withLock { $0.buffer.dropped } }

  /// Lines that were lost since the start.
  public var lostLines: Int { waiting.withLock { $0.buffer.droppedInAll } }

  private func schedule() {
    queue.asyncAfter(deadline: .now() + Self.delay) { self.drainAndReschedule() }
  }

  private func drainAndReschedule() {
    drain()
    let mustSchedule = waiting.withLock { waiting in
      waiting.isScheduled = !waiting.buffer.bytes.isEmpty
      return waiting.isScheduled
    }
    if mustSchedule { schedule() }
  }

  private func drain() {
    waiting.withLock { $0.buffer.take(into: &spare) }
    guard !spare.isEmpty else { return }
    let lines = spare
    if target.prepare() { endsMidLine = false }
    let (unwritten, error) = write(lines.span)
    let lost = spare.suffix(unwritten).count { $0 == UInt8(ascii: "\n") }
    waiting.withLock { waiting in
      // Only after a success: on a full disk a report would be lost as well, and ask for the next.
      if lost > 0 { waiting.buffer.drop(lost) } else { waiting.buffer.reportDropped(time: .now()) }
    }
    target.finish(lostLines: lost, error: error)
  }

  /// Writes `bytes`, however long that takes; gives how many at the end could not be written, and why.
  private func write(_ bytes: Span<UInt8>) -> (left: Int, error: Int32) {
    if endsMidLine {
      let newline: [UInt8] = [UInt8(ascii: "\n")]
      let (left, error) = unsafe newline.span.withUnsafeBytes { unsafe writeAll($0) }
      guard left == 0 else { return (bytes.count, error) }
      endsMidLine = false
    }
    let (left, error) = unsafe bytes.withUnsafeBytes { unsafe writeAll($0) }
    if left > 0, left < bytes.count { endsMidLine = bytes[bytes.count - left - 1] != UInt8(ascii: "\n") }
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

  /// Waits for a terminal or pipe that does not block: a FIFO that this program opened so, or a file whose flag another
  /// process has set on the shared description.
  private func waitUntilWritable() {
    var entry = pollfd(fd: target.descriptor, events: Int16(POLLOUT), revents: 0)
    unsafe poll(&entry, 1, 1000)
  }
}

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

/// Decides what of a file's troubles is worth telling: that they begin, and that they are over, but not ten times a
/// second. A value: errors and the time in, notices out.
struct FailureWatch {
  private let path: String
  private var isTold = false
  private var lostLines = 0
  private var quietUntil: UInt64 = 0

  /// The least time between two notices of failure, in nanoseconds.
  static let pause: UInt64 = 10_000_000_000

  init(path: String) {
    self.path = path
  }

  /// Learns how a batch of lines went.
  ///
  /// - Parameters:
  ///   - error: An error number, or 0.
  ///   - now: In nanoseconds of a clock that does not go back.
  mutating func note(error: Int32, lostLines lost: Int, now: UInt64) -> AuditFileNotice? {
    lostLines += lost
    if error != 0 {
      guard !isTold, now >= quietUntil else { return nil }
      isTold = true
      quietUntil = now + Self.pause
      return .failing(AuditFileError(path: path, code: error))
    }
    guard isTold else { return nil }
    isTold = false
    defer { lostLines = 0 }
    return .recovered(path: path, lostLines: lostLines)
  }
}
