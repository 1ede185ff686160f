/// Takes audit records from any thread, to be written among the log's lines or into a file of their own.
public final class AuditLog: Sendable {
  private let sink: LogSink
  private let isFile: Bool

  /// One whose records are lines of the log, in the log's format, with the message `audit`.
  public init(onto sink: LogSink) {
    self.sink = sink
    isFile = false
  }

  /// One that appends its records to a file, as JSON whatever the log's format.
  ///
  /// A missing file is made, for its owner to write and its group to read, since addresses are personal data. It may be
  /// moved or removed at any time, as `logrotate` does: later records go into a new file. While the file cannot be
  /// written, records are dropped and counted, and no caller waits; once it can, a line says how many were dropped. A
  /// written record outlives this process, but it is not forced to the disk, so a power failure can lose it.
  ///
  /// - Parameters:
  ///   - path: A file, or a device such as `/dev/stdout`. A FIFO works if a process has it open for reading already. A
  ///     symbolic link is followed.
  ///   - warn: Called when writing has begun to fail and when it works again, not often, on a thread of the audit's own.
  /// - Throws: If the file cannot be opened.
  public init(
    file path: String, warn: @escaping @Sendable (AuditFileNotice) -> Void
  ) throws(AuditFileError) {
    sink = LogSink(target: try AuditFile(path, warn: warn), format: .json)
    isFile = true
  }

  /// Writes one record: a short critical section, no system call.
  public func write(_ record: AuditRecord) {
    sink.append { bytes, format in record.append(to: &bytes, format: format, time: .now()) }
  }

  /// Waits until every record so far is written, or until `timeout` has passed: for the end of the process.
  ///
  /// - Returns: Whether it is done.
  @discardableResult
  public func flush(timeout: Duration = .seconds(1)) -> Bool {
    sink.flush(timeout: timeout)
  }

  /// Records that the file lost since the start. Without a file it is 0, because the log counts its own lost lines.
  public var lostLines: Int { isFile ? sink.lostLines : 0 }
}
