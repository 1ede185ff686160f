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
  // Sendable because `buffer` and `isScheduled` are touched only under `mutex`, `target`, `spare` and `endsMidLine` only
  // on `queue`, which is serial, and the rest never changes.
  private let target: any LogTarget
  private let format: LogFormat
  private let mutex = Mutex()
  private let queue = DispatchQueue(label: "log")
  private var buffer: LogBuffer
  private var isScheduled = false
  private var spare: [UInt8] = []
  private var endsMidLine = false

  /// How long lines may wait for company.
  private static let delay = DispatchTimeInterval.milliseconds(10)

  /// A sink for `descriptor`, which stays the caller's and must stay open.
  ///
  /// - Parameter capacity: The bytes that may wait; lines beyond are dropped and counted.
  public convenience init(descriptor: Int32, format: LogFormat, capacity: Int = 1 << 20) {
    self.init(target: FixedTarget(descriptor), format: format, capacity: capacity)
  }

  /// A sink for `target`, which is the sink's alone from now on.
  init(target: any LogTarget, format: LogFormat, capacity: Int = 1 << 20) {
    self.target = target
    self.format = format
    buffer = LogBuffer(capacity: capacity, format: format)
  }

  /// Logs one request, without allocating memory.
  public func log(_ record: AccessRecord) {
    append { bytes, format in record.append(to: &bytes, format: format, time: .now()) }
  }

  /// Appends the one line that `write` appends.
  func append(_ write: (inout [UInt8], LogFormat) -> Void) {
    let mustSchedule = mutex.withLock {
      buffer.append { write(&$0, format) }
      defer { isScheduled = true }
      return !isScheduled
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
  var droppedLines: Int { mutex.withLock { buffer.dropped } }

  /// Lines that were lost since the start.
  public var lostLines: Int { mutex.withLock { buffer.droppedInAll } }

  private func schedule() {
    queue.asyncAfter(deadline: .now() + Self.delay) { self.drainAndReschedule() }
  }

  private func drainAndReschedule() {
    drain()
    let mustSchedule = mutex.withLock {
      isScheduled = !buffer.bytes.isEmpty
      return isScheduled
    }
    if mustSchedule { schedule() }
  }

  private func drain() {
    mutex.withLock { buffer.take(into: &spare) }
    guard !spare.isEmpty else { return }
    let lines = spare
    if target.prepare() { endsMidLine = false }
    let (unwritten, error) = write(lines.span)
    let lost = spare.suffix(unwritten).count { $0 == UInt8(ascii: "\n") }
    mutex.withLock {
      // Only after a success: on a full disk a report would be lost as well, and ask for the next.
      if lost > 0 { buffer.drop(lost) } else { buffer.reportDropped(time: .now()) }
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
