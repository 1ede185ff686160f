import Glibc
import TestSupport

/// A process that runs beside the test: its standard output is read line by line, its standard error kept in a file.
final class ChildProcess {
  /// Its process ID, for `/proc`.
  let id: pid_t
  private let output: Int32
  private let errorFile: String
  private let directory: TemporaryDirectory
  private var unread: [UInt8] = []
  private var status: Int32?

  /// Everything on standard output so far.
  private(set) var standardOutput: [UInt8] = []

  /// How long a test waits for something that must come before it calls the server hung.
  static let patience: Int32 = 60_000

  /// Starts a program.
  ///
  /// - Parameter holdsInput: Whether its standard input stays open until `closeInput`, rather than being empty.
  init(
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
    // The one socket is both its standard output and, if it is to have one, its standard input.
    id = try spawn(executable, arguments, environment, onto: [holdsInput ? pipe[1] : nothing, pipe[1], errors])
  }

  /// Writes to its standard input.
  func send(_ text: String) {
    let bytes = Array(text.utf8)
    unsafe _ = Glibc.send(output, bytes, bytes.count, Int32(MSG_NOSIGNAL))
  }

  /// Lets its standard input end.
  func closeInput() { shutdown(output, Int32(SHUT_WR)) }

  deinit {
    if status == nil {
      kill(id, SIGKILL)
      _ = wait()
    }
    close(output)
  }

  /// Everything on standard error so far.
  var standardError: String { (try? TextFile.read(errorFile)) ?? "" }

  /// Waits until standard error has `count` lines with `text` in them.
  func waitForErrors(_ text: String, count: Int = 1) throws {
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
  func line() throws -> String? {
    while true {
      if let end = unread.firstIndex(of: UInt8(ascii: "\n")) {
        defer { unread.removeSubrange(...end) }
        return String(decoding: unread[..<end], as: UTF8.self)
      }
      guard try readMore() else { return nil }
    }
  }

  private func readMore() throws -> Bool {
    var entry = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
    guard unsafe poll(&entry, 1, Self.patience) > 0 else { throw TestFailure("The process \(id) says nothing.") }
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = unsafe read(output, &buffer, buffer.count)
    guard count > 0 else { return false }
    unread += buffer[..<count]
    standardOutput += buffer[..<count]
    return true
  }

  func signal(_ number: Int32) { kill(id, number) }

  /// Waits for its end and returns its exit status, or 128 + the number of the signal that ended it.
  @discardableResult
  func wait() -> Int32 {
    if let status { return status }
    var raw: Int32 = 0
    while unsafe waitpid(id, &raw, 0) < 0, errno == EINTR {}
    while (try? readMore()) == true {}
    let code = raw & 0x7f == 0 ? (raw >> 8) & 0xff : 128 + (raw & 0x7f)
    status = code
    return code
  }
}
