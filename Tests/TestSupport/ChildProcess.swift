import Glibc
import Testing

/// A process that runs beside the test: its standard output is read as it comes, its standard error kept in a file. It is
/// killed when the last reference goes.
public final class ChildProcess: @unchecked Sendable {
  // Sendable: used by one thread at a time.

  /// Its process ID, for `/proc`.
  public let id: Int32
  private let output: Int32
  private let errorFile: String
  private let directory: TemporaryDirectory
  private var unread: [UInt8] = []
  private var status: Int32?

  /// Everything on standard output so far.
  public private(set) var standardOutput: [UInt8] = []

  /// How long a test waits for something that must come before it calls the process hung, in milliseconds.
  public static let patience: Int32 = 60_000

  /// Starts a program.
  ///
  /// - Parameter holdsInput: Whether its standard input stays open until `closeInput`, rather than being empty.
  public init(
    _ executable: String, _ arguments: [String], environment: [String: String]? = nil, holdsInput: Bool = false
  ) throws {
    directory = try TemporaryDirectory()
    errorFile = directory.path(of: "stderr")
    // Not pipe(2): another test's child must not inherit the writing end, or this one's output would have no end.
    var pipe: [Int32] = [-1, -1]
    guard unsafe socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &pipe) == 0 else {
      throw TestFailure("There is no pipe to be had.")
    }
    let errors = unsafe open(errorFile, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    let nothing = unsafe open("/dev/null", O_RDONLY | O_CLOEXEC)
    defer { for descriptor in [pipe[1], errors, nothing] { close(descriptor) } }
    output = pipe[0]
    var patience = timeval(tv_sec: Int(Self.patience) / 1000, tv_usec: 0)
    unsafe setsockopt(output, SOL_SOCKET, SO_SNDTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    // The one socket is both its standard output and, if it is to have one, its standard input.
    id = try spawn(executable, arguments, environment, onto: [holdsInput ? pipe[1] : nothing, pipe[1], errors])
  }

  deinit {
    if status == nil {
      Glibc.kill(id, SIGKILL)
      _ = endOfProcess(id)
    }
    close(output)
  }

  // MARK: Its standard streams

  /// Writes to its standard input; less than all if it has ended, or takes nothing for `patience`.
  public func send(_ text: String) { send(Array(text.utf8)) }

  /// Writes to its standard input; less than all if it has ended, or takes nothing for `patience`.
  public func send(_ bytes: [UInt8]) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes {
        unsafe Glibc.send(output, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { return }
      rest = rest.dropFirst(count)
    }
  }

  /// Lets its standard input end.
  public func closeInput() { shutdown(output, Int32(SHUT_WR)) }

  /// Everything on standard error so far.
  public var standardError: String {
    do { return try TextFile.read(errorFile) } catch { return "\(error)" }
  }

  /// Waits until standard error has `count` lines with `text` in them.
  public func waitForErrors(_ text: String, count: Int = 1) throws {
    let watch = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC))
    defer { close(watch) }
    guard unsafe inotify_add_watch(watch, errorFile, UInt32(IN_MODIFY)) >= 0 else {
      throw TestFailure("There is no watch to be had.")
    }
    // Looked at after the watch stands, so that nothing is missed.
    while standardError.split(separator: "\n").count(where: { $0.contains(text) }) < count {
      var entry = pollfd(fd: watch, events: Int16(POLLIN), revents: 0)
      guard unsafe poll(&entry, 1, Self.patience) > 0 else {
        throw TestFailure("The process never said “\(text)”: \(standardError)")
      }
      var events = [UInt8](repeating: 0, count: 4096)
      _ = unsafe read(watch, &events, events.count)
    }
  }

  /// The next line of standard output, without its end; nil at the end of the output.
  public func line() throws -> String? {
    while true {
      if let end = unread.firstIndex(of: UInt8(ascii: "\n")) {
        defer { unread.removeSubrange(...end) }
        return String(decoding: unread[..<end], as: UTF8.self)
      }
      guard try readMore() else { return nil }
    }
  }

  /// The next bytes of standard output, whatever lines they are; nil at the end of the output.
  public func bytes() throws -> [UInt8]? {
    if unread.isEmpty, try !readMore() { return nil }
    defer { unread = [] }
    return unread
  }

  private func readMore() throws -> Bool {
    var entry = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
    guard unsafe poll(&entry, 1, Self.patience) > 0 else {
      throw TestFailure("Waited for \(Self.patience / 1000) s in vain: output of process \(id). \(standardError)")
    }
    var buffer = [UInt8](repeating: 0, count: 65_536)
    let count = unsafe read(output, &buffer, buffer.count)
    guard count > 0 else { return false }
    unread += buffer[..<count]
    standardOutput += buffer[..<count]
    return true
  }

  // MARK: Its end

  /// Sends it a signal.
  public func signal(_ number: Int32) { Glibc.kill(id, number) }

  /// Ends it at once.
  public func kill() {
    signal(SIGKILL)
    wait()
  }

  /// Whether it has come to an end.
  public var hasEnded: Bool {
    if status != nil { return true }
    var information = unsafe siginfo_t()
    // Zero for a process that still runs (`waitid(2)`); one that has ended keeps its number until `wait`.
    guard unsafe waitid(P_PID, id_t(id), &information, WEXITED | WNOHANG | WNOWAIT) == 0 else { return true }
    return unsafe information.si_signo != 0
  }

  /// Waits for its end and returns its exit status, or 128 + the number of the signal that ended it. A process that does
  /// not end is killed, and fails the test.
  @discardableResult
  public func wait() -> Int32 {
    if let status { return status }
    let end = endOfProcess(id)
    status = end.status
    if end.isOverdue {
      Issue.record("Waited for \(end.patience) in vain: the end of process \(id).")
    }
    do {
      while try readMore() {}
    } catch {
      Issue.record("\(error)")
    }
    return end.status
  }
}
