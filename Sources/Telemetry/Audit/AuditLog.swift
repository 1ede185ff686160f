import Bytes
import DequeModule
import Dispatch
import Locks

/// A log of audit records from any thread, written among the log's lines or to a separate file.
package final class AuditLog: Sendable {
  private let sink: LogSink
  private let isFile: Bool
  /// Whether a grant that cannot be recorded must not be given.
  package let isRequired: Bool
  /// The last records in JSON, without the ends of their lines, the oldest first; nil if none stay in memory.
  private let recent: Locked<Deque<[UInt8]>>?
  /// The number of these: 50. A record has 20 kB at most, with 32 origins of a token, so all have 1 MB.
  private static let mostRecent = 50
  private let refusals = Locked(RefusalSums())
  private let sumTimer = DispatchQueue(label: "audit.sums")

  private init(_ sink: LogSink, isFile: Bool, isRequired: Bool, keepsRecent: Bool) {
    (self.sink, self.isFile, self.isRequired) = (sink, isFile, isRequired)
    recent = keepsRecent ? Locked([]) : nil
  }

  /// Creates an audit log that writes its records as lines of the log, in its format, with the message `audit`.
  ///
  /// - Parameter keepsRecent: Whether the last records stay in memory.
  package convenience init(onto sink: LogSink, isRequired: Bool = false, keepsRecent: Bool = false) {
    self.init(sink, isFile: false, isRequired: isRequired, keepsRecent: keepsRecent)
  }

  /// Creates an audit log that appends its records to a file, as JSON in any log format.
  ///
  /// A missing file is created with mode 0640, because addresses are personal data. The file may be moved or removed at any
  /// time, as `logrotate` does: later records go to a new file. While it cannot be written, refusals are dropped and
  /// counted, and grants wait while there is room; no caller waits. Afterwards a line says how many records were dropped. A
  /// written record survives the end of this process, but not a power failure, because it is not forced to the disk.
  ///
  /// - Parameters:
  ///   - path: A file, a symbolic link to one, or a device such as `/dev/stdout`; a FIFO that a process has open.
  ///   - warn: Called with a sentence when writing begins to fail and when it works again, at a limited rate.
  package convenience init(
    file path: String, isRequired: Bool = false, keepsRecent: Bool = false, warn: @escaping @Sendable (String) -> Void
  ) throws(AuditFileError) {
    self.init(
      LogSink(target: try AuditFile(path, warn: warn), format: .json), isFile: true, isRequired: isRequired,
      keepsRecent: keepsRecent)
  }

  /// Writes a record, if anything takes it. Returns false if ``isRequired`` is true, and the record is lost.
  @discardableResult
  @inlinable
  package func record(_ record: @autoclosure () -> AuditRecord) -> Bool {
    !takesRecords || write(record()) || !isRequired
  }

  /// Writes one record: a short critical section, and no system call unless it arms the timer of an idle sink.
  ///
  /// - Returns: Whether there is a record. If the audit log is required, a grant without one must not be given.
  @discardableResult
  package func write(_ record: AuditRecord) -> Bool {
    let isKept = !hasLines || sink.log(record, refusesWhileFailing: isRequired)
    if isKept || !isRequired || record.outcome != .granted {
      keep { record.append(to: &$0, format: .json, time: .now()) }
    }
    return isKept
  }

  /// Writes the record of a refusal, unless its address for rate limits has many others in this second, which are summed up.
  package func recordRefusal(_ record: @autoclosure () -> AuditRecord, of address: String) {
    guard takesRecords else { return }
    let refusal = record()
    let (hasLine, isFirst) = refusals.withLock { $0.count(address, isLimited: refusal.outcome == .limited) }
    if isFirst { sumTimer.asyncAfter(deadline: .now() + .seconds(1)) { self.writeSums() } }
    if hasLine { write(refusal) }
  }

  package func write(_ record: KeyAuditRecord) {
    if hasLines {
      sink.append(.keyEvent) { bytes, format, time in record.append(to: &bytes, format: format, time: time) }
    }
    keep { record.append(to: &$0, format: .json, time: .now()) }
  }

  private func keep(_ write: (inout [UInt8]) -> Void) {
    guard let recent else { return }
    var written: [UInt8] = []
    write(&written)
    // A copy, because a record is written with room for escapes that it seldom needs.
    let line = Array(written.dropLast())
    recent.withLock { lines in
      if lines.count == Self.mostRecent { lines.removeFirst() }
      lines.append(line)
    }
  }

  /// Writes the sums of refusals that have no line of their own.
  private func writeSums() {
    for sum in refusals.withLock({ $0.take() }) where hasLines {
      sink.append(.refusal) { bytes, format, time in sum.append(to: &bytes, format: format, time: time) }
    }
  }

  /// An array of JSON objects, the newest first.
  package var recentRecords: [UInt8] {
    Array("[".utf8) + (recent?.withLock { $0 } ?? []).reversed().joined(separator: ",".utf8) + "]".utf8
  }

  /// Whether grants have records: not above the level of requests, nor for a person, who sees the line of the request.
  package var keepsGrants: Bool { hasLines && !sink.isForPerson }
  /// Whether anything takes records, which need not be made otherwise.
  package var takesRecords: Bool { hasLines || recent != nil }
  /// A reload may change the level of the log, and a file has lines at any level.
  private var hasLines: Bool { isFile || sink.filter.hasRequests }

  package struct RecordingState: Sendable, Equatable {
    /// Whether the last write failed. Grants wait meanwhile.
    package var isFailing: Bool
    /// Whether so many records wait that there is no room for another grant.
    package var isFull: Bool
    /// The number of grants and key events that the audit log lost since the start.
    package var unrecorded: Int
    /// The time since the last one.
    package var sinceUnrecorded: Duration?
    /// The time since the last record of any kind was lost.
    package var sinceLost: Duration?
  }

  package var state: RecordingState { sink.recordingState(hasOnlyRecords: isFile) }

  /// Waits for all records so far, or for `timeout`, at the end of the process. Returns whether all are written.
  @discardableResult
  package func flush(timeout: Duration = .seconds(1)) -> Bool {
    writeSums()
    return sink.flush(timeout: timeout)
  }

  /// The number of records that wait to be written to the file. After ``flush(timeout:)``, at the end of the process, they
  /// are lost. Without a file it is 0: a log that cannot be written has no place for the number.
  package var waitingRecords: Int { isFile ? sink.waitingRecords : 0 }

  /// Opens the file again if it was moved or removed, without a wait for the next record.
  package func reopen() { sink.reopen() }

  /// The number of records that the file lost since the start. 0 without a file: the log counts its own lost lines.
  package var lostLines: Int { isFile ? sink.lostLines : 0 }
}

/// The audit record of a change of the signing key.
package struct KeyAuditRecord: Sendable {
  /// One word, such as `key_promoted`.
  package var event: StaticString
  /// The ID of the key: the one that signs now, or the one that Apple Music refused.
  package var keyID: String
  /// The SHA-256 of the key's public half, in hexadecimal.
  package var fingerprint: String
  /// The ID of the key that signed before. Nil if the same key still signs.
  package var previous: String?
  /// The time until which callers may hold tokens of that key, in seconds since 1970.
  package var tokensExpire: Int?

  package init(
    event: StaticString, keyID: String, fingerprint: String, previous: String? = nil, tokensExpire: Int? = nil
  ) {
    (self.event, self.keyID, self.fingerprint) = (event, keyID, fingerprint)
    (self.previous, self.tokensExpire) = (previous, tokensExpire)
  }

  func append(to bytes: inout [UInt8], format: LogFormat, time: LineTime) {
    let texts = keyID.utf8.count + fingerprint.utf8.count + (previous ?? "").utf8.count
    format.line(to: &bytes, time, "audit", room: LogFormat.room(forTexts: texts)) { line in
      format.field(&line, json: #","audit.event":"#, word: event)
      format.field(&line, json: #","key.id":"#, keyID)
      format.field(&line, json: #","key.fingerprint":"#, fingerprint)
      if let previous { format.field(&line, json: #","key.previous":"#, previous) }
      if let tokensExpire {
        format.field(&line, json: #","tokens.expire":"#, "\(CivilTime(secondsSinceEpoch: tokensExpire))")
      }
    }
  }
}

/// Counts the refusals of each address, so that an address leaves only so many lines in a second, and one with the sum of
/// the others: a stranger without a credential causes as many refusals as the network takes. A value without a clock.
struct RefusalSums: Sendable {
  /// The refusals of an address in one second that have no line of their own.
  struct Sum: Sendable, Equatable {
    /// The address or network; `other` for those beyond the maximum number of addresses.
    var address: String
    /// The number of refused requests.
    var refused = 0
    /// The number of requests beyond a rate.
    var limited = 0

    var all: Int { refused + limited }
  }

  /// The refusals in a second for which an address has lines: 100, as many as it may have failed attempts at once.
  static let lines = 100
  /// The most addresses in a second: 4,096. Further ones count together.
  static let addresses = 4096

  private var entries: [ByteString: (lines: Int, sum: Sum)] = [:]
  /// Whether there was a refusal since the last sums.
  private var isCounting = false

  /// Counts one refusal of an address, or of the smallest network that one customer holds. Returns whether it has a line of
  /// its own, and whether it is the first one since the last sums, so that the owner has to take them in a second.
  mutating func count(_ address: String, isLimited: Bool) -> (hasLine: Bool, isFirst: Bool) {
    let isFirst = !isCounting
    isCounting = true
    var key = ByteString(address)
    if entries[key] == nil, entries.count >= Self.addresses { key = "other" }
    var entry = entries[key] ?? (0, Sum(address: key == "other" ? "other" : address))
    defer { entries[key] = entry }
    if entry.lines < Self.lines {
      entry.lines += 1
      return (true, isFirst)
    }
    if isLimited { entry.sum.limited += 1 } else { entry.sum.refused += 1 }
    return (false, isFirst)
  }

  /// Returns the sums, the largest first, and begins another second with the next refusal.
  mutating func take() -> [Sum] {
    defer {
      entries.removeAll(keepingCapacity: entries.count < 64)
      isCounting = false
    }
    return entries.values.map(\.sum).filter { $0.all > 0 }.sorted { ($0.all, $1.address) > ($1.all, $0.address) }
  }
}

extension RefusalSums.Sum {
  func append(to bytes: inout [UInt8], format: LogFormat, time: LineTime) {
    format.line(to: &bytes, time, "audit", room: LogFormat.room(forTexts: address.utf8.count)) { line in
      format.field(&line, json: #","audit.event":"#, word: "refusals_summed_up")
      format.field(&line, json: #","client.address":"#, address)
      format.field(&line, json: #","audit.refused":"#, refused)
      format.field(&line, json: #","audit.limited":"#, limited)
    }
  }
}
