import Bytes
import Dispatch
import Glibc
public import Tracing

/// A log of audit records from any thread, written among the log's lines or to a separate file.
public final class AuditLog: Sendable {
  let sink: LogSink
  private let isFile: Bool
  /// Whether a grant that cannot be recorded must not be given.
  public let isRequired: Bool

  /// Creates an audit log that writes its records as lines of the log, in the log's format, with the message `audit`.
  ///
  /// - Parameter isRequired: Whether a grant that cannot be recorded must not be given.
  public init(onto sink: LogSink, isRequired: Bool = false) {
    self.sink = sink
    self.isRequired = isRequired
    isFile = false
  }

  /// Creates an audit log that appends its records to a file, as JSON in any log format.
  ///
  /// The audit log creates a missing file with mode 0640, because addresses are personal data. The file may be moved or
  /// removed at any time, as `logrotate` does: later records go to a new file. While the file cannot be written,
  /// refusals are dropped and counted, grants wait while there is room, and no caller waits. Afterwards a line says how
  /// many records were dropped. A written record survives the end of this process, but it is not forced to the disk, so a
  /// power failure can lose it.
  ///
  /// - Parameters:
  ///   - path: A file, or a device such as `/dev/stdout`. A FIFO works if a process already has it open for reading. A
  ///     symbolic link is followed.
  ///   - isRequired: Whether a grant that cannot be recorded must not be given.
  ///   - warn: Called when writing begins to fail and when it works again, with a limited rate, on the audit log's own
  ///     thread.
  /// - Throws: If the file cannot be opened.
  public init(
    file path: String, isRequired: Bool = false, warn: @escaping @Sendable (AuditFileNotice) -> Void
  ) throws(AuditFileError) {
    sink = LogSink(target: try AuditFile(path, warn: warn), format: .json)
    self.isRequired = isRequired
    isFile = true
  }

  /// Writes one record: a short critical section, and no system call unless it arms the timer of an idle sink.
  ///
  /// - Returns: Whether the record is kept. A grant that is not must not be given if the audit log is required: the file
  ///   could not be written, or so many records wait that there is no room.
  @discardableResult
  public func write(_ record: AuditRecord) -> Bool {
    !hasLines || sink.log(record, refusesWhileFailing: isRequired)
  }

  /// Whether grants have records: a log above the level of requests has none, nor has one for a person, because the line of
  /// the request shows them.
  public var keepsGrants: Bool { hasLines && !sink.isForPerson }

  /// Whether the audit log has lines. A reload may change the level of the log, and a file has lines at any level.
  public var hasLines: Bool { isFile || sink.filter.hasRequests }

  /// Whether grants are recorded.
  public struct RecordingState: Sendable, Equatable {
    /// Whether the last write failed. Grants wait meanwhile.
    public var isFailing: Bool
    /// Whether so many records wait that there is no room for another grant.
    public var isFull: Bool
    /// The number of grants and key events that the audit log lost since the start.
    public var unrecorded: Int
    /// The time since the last one; nil if there was none.
    public var sinceUnrecorded: Duration?
    /// The time since the last record of any kind was lost; nil if none was.
    public var sinceLost: Duration?
  }

  /// Whether grants are recorded at present.
  public var state: RecordingState { sink.recordingState(hasOnlyRecords: isFile) }

  /// The number of grants and key events without a record since the start.
  public var unrecordedGrants: Int { state.unrecorded }

  /// Waits until all records so far are written, or until `timeout` has passed, for the end of the process.
  ///
  /// - Returns: Whether all records are written.
  @discardableResult
  public func flush(timeout: Duration = .seconds(1)) -> Bool {
    sink.flush(timeout: timeout)
  }

  /// Opens the file again if it was moved or removed, without a wait for the next record.
  public func reopen() { sink.reopen() }

  /// The number of records that the file lost since the start. Without a file it is 0, because the log counts its own
  /// lost lines.
  public var lostLines: Int { isFile ? sink.lostLines : 0 }
}

/// The audit record of one access decision.
///
/// A record contains no token, no credential, and no subject of a caller's JWT, which identifies a person.
public struct AuditRecord: Sendable {
  /// The developer token that the server issued.
  public struct Token: Sendable {
    /// The ID of the key that signed it.
    public var keyID: String
    /// The origins in the token; empty if the token is bound to no origin.
    public var origins: [String]
    /// Its `exp`, in seconds since 1970.
    public var expiry: Int
    /// The digest that identifies the token.
    public var digest: TokenDigest

    /// Creates a token description with these properties.
    public init(keyID: String, origins: [String], expiry: Int, digest: TokenDigest) {
      self.keyID = keyID
      self.origins = origins
      self.expiry = expiry
      self.digest = digest
    }
  }

  /// The request's identifier.
  public var requestID: RequestID
  /// The request's trace, and the server's span in it.
  public var trace: RequestTrace
  /// The client's id in the settings; `-` if the caller belongs to no client.
  public var client: String
  /// The caller's address, without the port.
  public var address: String
  /// The route's template, never the path as it was sent.
  public var route: StaticString
  /// The outcome of the decision.
  public var outcome: AuditOutcome
  /// The reason in one word such as `origin_not_allowed`, or nil if there is nothing to explain.
  public var reason: StaticString?
  /// The refused web origin, or nil if the reason is another. It is a checked ASCII origin, or `null`.
  public var origin: String?
  /// The issued token, or nil if the server issued none.
  public var token: Token?

  /// Creates a record of one decision.
  public init(
    requestID: RequestID, trace: RequestTrace, client: String, address: String, route: StaticString,
    outcome: AuditOutcome, reason: StaticString? = nil, origin: String? = nil, token: Token? = nil
  ) {
    self.requestID = requestID
    self.trace = trace
    self.client = client
    self.address = address
    self.route = route
    self.outcome = outcome
    self.reason = reason
    self.origin = origin
    self.token = token
  }
}

/// The outcome of a decision.
public enum AuditOutcome: Sendable, CaseIterable {
  /// The caller has access. The request may still fail for another reason.
  case granted
  /// The caller has no access, or the server does not know the caller.
  case refused
  /// The caller has access, but sends too many requests.
  case limited
  /// An operator asked for the decision about a request that no caller sent. The reason is that of the refusal; nil if
  /// the server would grant the request.
  case explained

  /// The name in logs and metrics.
  public var name: StaticString {
    switch self {
    case .granted: "granted"
    case .refused: "refused"
    case .limited: "limited"
    case .explained: "explained"
    }
  }
}

extension AuditRecord {
  func append(to bytes: inout [UInt8], format: LogFormat, time: LineTime) {
    let texts = client.utf8.count + address.utf8.count + (origin ?? "").utf8.count
    let room = LogFormat.roomForRecord + LogFormat.room(forTexts: texts) + (token?.room ?? 0)
    bytes.append(addingCapacity: room) { (line: inout OutputSpan<UInt8>) in
      format.begin(&line, time: time, level: "info", literal: "audit")
      format.field(&line, json: #","request.id":"#, requestID)
      format.field(&line, trace)
      format.field(&line, json: #","client.id":"#, client)
      format.field(&line, json: #","client.address":"#, address)
      format.field(&line, json: #","http.route":"#, word: route)
      format.field(&line, json: #","audit.outcome":"#, word: outcome.name)
      if let reason { format.field(&line, json: #","audit.reason":"#, word: reason) }
      if let origin { format.field(&line, json: #","request.origin":"#, origin) }
      if let token { token.append(to: &line, format: format) }
      format.end(&line)
    }
  }
}

/// A record for a person at a terminal:
/// `15:04:05Z  refused  origin_not_allowed  -  https://evil.example  /token`, with a colour for the outcome.
extension AuditRecord {
  func appendForPerson(to bytes: inout [UInt8], time: LineTime) {
    bytes.appendClock(time)
    bytes.append("\u{1B}[33m")
    bytes.appendWord(outcome.name.description, atMost: 7)
    bytes.append("\u{1B}[0m  ")
    bytes.appendWord(reason?.description ?? "-", atMost: 26)
    bytes.append("  ")
    bytes.appendWord(client, atMost: 20)
    bytes.append("  ")
    if let origin {
      bytes.appendWord(origin, atMost: 32)
      bytes.append("  ")
    }
    // The other parts have at most 104 of the 120 columns, with the time, which takes 11.
    bytes.appendWord(route.description, atMost: AccessRecord.columns - 104)
    bytes.append("\n")
  }
}

extension AuditRecord.Token {
  fileprivate func append(to line: inout OutputSpan<UInt8>, format: LogFormat) {
    format.field(&line, json: #","token.key_id":"#, keyID)
    format.field(&line, json: #","token.origins":"#, origins)
    format.field(&line, json: #","token.expiry":"#, expiry)
    format.field(&line, json: #","token.sha256":"#, digest)
  }

  /// Room in bytes for its texts: quotes and a comma around each origin.
  fileprivate var room: Int {
    origins.reduce(LogFormat.room(forTexts: keyID.utf8.count)) { $0 + LogFormat.room(forTexts: $1.utf8.count) + 3 }
  }
}

/// A file that receives lines, reopened by its path after it was moved or removed.
///
/// For each batch of lines, so at most a hundred times a second, the log checks whether the path still leads to the
/// open file. Lines from before the check are in the old file, and later lines are in the new file.
final class AuditFile: LogTarget {
  private(set) var descriptor: Int32
  private let path: String
  private var identity: FileIdentity?
  private var openError: Int32 = 0
  private var watch: FailureWatch
  private let warn: @Sendable (AuditFileNotice) -> Void

  init(_ path: String, warn: @escaping @Sendable (AuditFileNotice) -> Void) throws(AuditFileError) {
    descriptor = Self.open(path)
    guard descriptor >= 0 else { throw AuditFileError(path: path, code: errno) }
    identity = FileIdentity(descriptor: descriptor)
    watch = FailureWatch(path: path)
    self.path = path
    self.warn = warn
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  func prepare() -> Bool {
    if descriptor >= 0, let identity, identity == FileIdentity(path: path) {
      openError = 0
      return false
    }
    let new = Self.open(path)
    guard new >= 0 else {
      openError = errno
      // The path cannot be opened. A file that was moved still receives lines. A removed file would lose them.
      if !FileIdentity.isLinked(descriptor) { replaceDescriptor(-1) }
      return false
    }
    openError = 0
    replaceDescriptor(new)
    return true
  }

  func finish(lostLines: Int, error: Int32) {
    let error = openError != 0 ? openError : error
    if let notice = watch.note(error: error, lostLines: lostLines, now: DispatchTime.now().uptimeNanoseconds) {
      warn(notice)
    }
  }

  private func replaceDescriptor(_ new: Int32) {
    if descriptor >= 0 { close(descriptor) }
    descriptor = new
    identity = new >= 0 ? FileIdentity(descriptor: new) : nil
  }

  /// Opens the file in append mode, so that lines go to the start of a file that another process truncates. The call
  /// does not wait for a FIFO's reader. It follows symbolic links, which an operator may use to put a log elsewhere.
  private static func open(_ path: String) -> Int32 {
    unsafe Glibc.open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0o640)
  }
}

/// The error when the audit file cannot be written.
public struct AuditFileError: Error, Equatable, CustomStringConvertible {
  /// The path of the audit file.
  public let path: String
  /// The error number of the system.
  public let code: Int32

  /// A sentence for the operator.
  public var description: String {
    // Opening a FIFO without a reader fails with ENXIO, and so does opening a socket, which `/dev/stdout` may be.
    let reason =
      switch code {
      case ENXIO: "no process reads the FIFO, or it is a socket"
      case ENOENT where isLink: "it is a symbolic link to a folder that does not exist; make the folder"
      case EACCES where isPermitted:
        "its folder is not the one of the start, and the server has given up all others; restart the server"
      default: unsafe String(cString: strerror(code))
      }
    return "The server cannot write the audit file '\(path)': \(reason)."
  }
}

extension AuditFileError {
  /// Whether permissions allow writing, so that another restriction, such as Landlock, denies it: access(2) checks
  /// permissions only.
  private var isPermitted: Bool {
    if unsafe access(path, W_OK) == 0 { return true }
    let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
    return unsafe access(path, F_OK) != 0 && access(folder, W_OK | X_OK) == 0
  }

  private var isLink: Bool {
    var status = stat()
    return unsafe lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
  }
}

/// A notice to the operator about the audit file.
public enum AuditFileNotice: Sendable, Equatable, CustomStringConvertible {
  case failing(AuditFileError)
  /// The file can be written again. `lostLines` is the number of records lost since the previous recovery.
  case recovered(path: String, lostLines: Int)

  /// A sentence for the log.
  public var description: String {
    switch self {
    case .failing(let error): "\(error)"
    case .recovered(let path, let lostLines):
      "The server can write the audit file '\(path)' again. Records lost: \(lostLines)."
    }
  }
}

/// The identity of a file, independent of its name.
struct FileIdentity: Equatable {
  private let device: dev_t
  private let number: ino_t

  /// Returns the identity of an open file, or nil if the descriptor is not open.
  init?(descriptor: Int32) {
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { return nil }
    (device, number) = (status.st_dev, status.st_ino)
  }

  /// Returns the identity of the file at a path, following symbolic links, or nil if there is no accessible file.
  init?(path: String) {
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return nil }
    (device, number) = (status.st_dev, status.st_ino)
  }

  /// Returns whether an open file still has a name.
  static func isLinked(_ descriptor: Int32) -> Bool {
    var status = stat()
    return unsafe fstat(descriptor, &status) == 0 && status.st_nlink > 0
  }
}

/// The SHA-256 of a token in its compact form, which identifies the token where the token itself must not appear.
///
/// A separate type instead of text, so that no token can be passed by mistake.
public struct TokenDigest: Sendable {
  let bytes: InlineArray<32, UInt8>

  /// Creates the digest with these bytes.
  public init(_ bytes: InlineArray<32, UInt8>) {
    self.bytes = bytes
  }
}
