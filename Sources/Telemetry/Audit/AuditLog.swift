import Dispatch
import Glibc

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

/// What the audit log says of one decision about who may have what.
///
/// It has no place for a token or a credential, nor for the subject of a caller's JWT, which is a person.
public struct AuditRecord: Sendable {
  /// How it ended.
  public enum Outcome: Sendable, CaseIterable {
    /// The caller has access. The request may still fail for another reason.
    case granted
    /// The caller has no access, or is not known.
    case refused
    /// The caller has access, but sends too many requests.
    case limited

    /// As it stands in logs and metrics.
    public var name: StaticString {
      switch self {
      case .granted: "granted"
      case .refused: "refused"
      case .limited: "limited"
      }
    }
  }

  /// The developer token that was handed out.
  public struct Token: Sendable {
    /// The ID of the key that signed it.
    public var keyID: String
    /// The origins that it is bound to; empty if to none.
    public var origins: [String]
    /// Its `exp`, in seconds since 1970.
    public var expiry: Int
    /// What it can be recognised by.
    public var digest: TokenDigest

    /// A token with these properties.
    public init(keyID: String, origins: [String], expiry: Int, digest: TokenDigest) {
      self.keyID = keyID
      self.origins = origins
      self.expiry = expiry
      self.digest = digest
    }
  }

  /// The request's identifier.
  public var requestID: RequestID
  /// The client's id in the settings; `-` if the caller belongs to no client.
  public var client: String
  /// The caller's address, without the port.
  public var address: String
  /// The route's template, never the path as it was sent.
  public var route: StaticString
  /// How it ended.
  public var outcome: Outcome
  /// Why, in one word such as `origin_not_allowed`; nil if there is nothing to explain.
  public var reason: StaticString?
  /// The web origin that was refused; nil if the reason is another. A checked origin of ASCII, or `null`.
  public var origin: String?
  /// The token that was handed out; nil if none was.
  public var token: Token?

  /// A record of one decision.
  public init(
    requestID: RequestID, client: String, address: String, route: StaticString, outcome: Outcome,
    reason: StaticString? = nil, origin: String? = nil, token: Token? = nil
  ) {
    self.requestID = requestID
    self.client = client
    self.address = address
    self.route = route
    self.outcome = outcome
    self.reason = reason
    self.origin = origin
    self.token = token
  }
}

extension AuditRecord {
  /// Appends the record as a line of `format` to `bytes`.
  func append(to bytes: inout [UInt8], format: LogFormat, time: WallTime) {
    format.begin(&bytes, time: time, level: "info", message: "audit")
    format.field(&bytes, literal: "request.id", requestID)
    format.field(&bytes, literal: "client.id", client)
    format.field(&bytes, literal: "client.address", address)
    format.field(&bytes, literal: "http.route", word: route)
    format.field(&bytes, literal: "audit.outcome", word: outcome.name)
    if let reason { format.field(&bytes, literal: "audit.reason", word: reason) }
    if let origin { format.field(&bytes, literal: "request.origin", origin) }
    if let token { token.append(to: &bytes, format: format) }
    format.end(&bytes)
  }
}

extension AuditRecord.Token {
  fileprivate func append(to bytes: inout [UInt8], format: LogFormat) {
    format.field(&bytes, literal: "token.key_id", keyID)
    format.field(&bytes, "token.origins", origins)
    format.field(&bytes, literal: "token.expiry", expiry)
    format.field(&bytes, literal: "token.sha256", digest)
  }
}

/// A file that lines are appended to. It is opened again by its path after it was moved or removed.
///
/// Once for each batch of lines, so at most a hundred times a second, the log checks whether the file is still the one
/// at its path. Lines from before the check are in the old file, and later lines are in the new one.
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
      // The path cannot be opened. A file that was moved away still takes lines. A removed file would lose them.
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

  /// Opens for appending, so that a file that another process truncates is written from its beginning. Does not wait
  /// for a FIFO's reader. Follows symbolic links, by which an operator puts a log elsewhere.
  private static func open(_ path: String) -> Int32 {
    unsafe Glibc.open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0o640)
  }
}

/// The audit file cannot be written.
public struct AuditFileError: Error, Equatable, CustomStringConvertible {
  /// Where it is.
  public let path: String
  /// The error number of the system.
  public let code: Int32

  /// A sentence for the operator.
  public var description: String {
    // Opening a FIFO without waiting for its reader ends so, and so does a socket, which `/dev/stdout` may be.
    let reason = code == ENXIO ? "no process reads the FIFO, or it is a socket" : unsafe String(cString: strerror(code))
    return "The audit file '\(path)' cannot be written: \(reason)."
  }
}

/// What an operator should know of the audit file.
public enum AuditFileNotice: Sendable, Equatable, CustomStringConvertible {
  /// It cannot be written.
  case failing(AuditFileError)
  /// It can again; so many records were lost since the last time that it was said.
  case recovered(path: String, lostLines: Int)

  /// A sentence for the log.
  public var description: String {
    switch self {
    case .failing(let error): "\(error)"
    case .recovered(let path, let lostLines):
      "The audit file '\(path)' can be written again; records lost: \(lostLines)."
    }
  }
}

/// Which file it is, whatever its name.
struct FileIdentity: Equatable {
  private let device: dev_t
  private let number: ino_t

  /// The identity of an open file; nil if the descriptor is not open.
  init?(descriptor: Int32) {
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { return nil }
    (device, number) = (status.st_dev, status.st_ino)
  }

  /// The identity of the file at a path, symbolic links followed; nil if no file is visible there.
  init?(path: String) {
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return nil }
    (device, number) = (status.st_dev, status.st_ino)
  }

  /// Whether an open file has a name left.
  static func isLinked(_ descriptor: Int32) -> Bool {
    var status = stat()
    return unsafe fstat(descriptor, &status) == 0 && status.st_nlink > 0
  }
}

/// The SHA-256 of a token in its compact form: names it where the token itself must not stand.
///
/// A type of its own, and not a string, so that nothing else can be put into its place by mistake.
public struct TokenDigest: Sendable, Equatable {
  let hexadecimal: String

  /// The digest in 64 lower-case hexadecimal digits; nil if `text` is anything else.
  public init?(hexadecimal text: String) {
    guard text.utf8.count == 64, text.utf8.allSatisfy(\.isLowercaseHexadecimal) else { return nil }
    hexadecimal = text
  }
}

extension UInt8 {
  fileprivate var isLowercaseHexadecimal: Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(self)
  }
}
