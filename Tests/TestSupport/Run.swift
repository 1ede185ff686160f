import Dispatch
import Glibc

/// The result of a child process.
public struct ProcessResult: Sendable {
  /// The exit status, or 128 + the number of the signal that ended the process, as in shells.
  public let status: Int32
  /// All bytes that the process wrote to standard output.
  public let standardOutput: [UInt8]
  /// All bytes that the process wrote to standard error.
  public let standardError: [UInt8]

  /// Standard output as text.
  public var stdout: String { String(decoding: standardOutput, as: UTF8.self) }
  /// Standard error as text.
  public var stderr: String { String(decoding: standardError, as: UTF8.self) }
}

/// Runs a program to its end. The calling thread waits.
/// - Parameters:
///   - executable: A path, or a name to look up in `PATH`.
///   - arguments: The arguments after the program's name.
///   - input: The content of standard input.
///   - environment: The whole environment of the program; nil for the environment of the test.
/// - Throws: `TestFailure` if the program cannot be started, or does not end.
public func run(
  _ executable: String, _ arguments: [String] = [], input: [UInt8] = [], environment: [String: String]? = nil
) throws -> ProcessResult {
  let inputs = try ScratchFile()
  let outputs = try ScratchFile()
  let errors = try ScratchFile()
  try inputs.fill(with: input)
  let child = try spawn(
    executable, arguments, environment, onto: [inputs.descriptor, outputs.descriptor, errors.descriptor])
  let end = endOfProcess(child)
  guard !end.isOverdue else {
    let command = ([executable] + arguments).joined(separator: " ")
    throw TestFailure(
      "Waited for \(end.patience) in vain: the end of “\(command)”. \(String(decoding: errors.contents(), as: UTF8.self))"
    )
  }
  return ProcessResult(
    status: end.status, standardOutput: outputs.contents(), standardError: errors.contents())
}

/// How a process came to its end.
struct ProcessEnd {
  /// How long a process may take, however busy the machine is.
  let patience = Duration.seconds(300)
  /// Its exit status, or 128 + the number of the signal that ended it.
  let status: Int32
  /// Whether it took longer than `patience`, and was killed.
  let isOverdue: Bool
}

/// Waits for the end of a child process, and kills it if it takes too long.
func endOfProcess(_ process: pid_t) -> ProcessEnd {
  let overdue = Overdue()
  let queue = DispatchQueue(label: "test.patience")
  let timer = DispatchSource.makeTimerSource(queue: queue)
  timer.setEventHandler {
    overdue.isSo = true
    kill(process, SIGKILL)
  }
  timer.schedule(deadline: .now() + 300)
  timer.resume()
  // The process keeps its number, so that the timer cannot kill another one that is given it.
  var information = unsafe siginfo_t()
  while unsafe waitid(P_PID, id_t(process), &information, WEXITED | WNOWAIT) < 0, errno == EINTR {}
  timer.cancel()
  queue.sync {}
  var raw: Int32 = 0
  while unsafe waitpid(process, &raw, 0) < 0, errno == EINTR {}
  // The low seven bits are the signal, the next byte the exit status.
  let signal = raw & 0x7f
  return ProcessEnd(status: signal == 0 ? (raw >> 8) & 0xff : 128 + signal, isOverdue: overdue.isSo)
}

private final class Overdue: @unchecked Sendable {
  // Sendable: written on the timer's queue, and read after the queue has done all it was given.
  var isSo = false
}

/// Starts a program with `descriptors` as its descriptors 0, 1 and 2.
/// - Parameters:
///   - executable: A path, or a name to look up in `PATH`.
///   - arguments: The arguments after the program's name.
///   - environment: The whole environment of the program; nil for the environment of the test.
///   - descriptors: The descriptors to duplicate. The caller still owns them.
/// - Returns: The process, for which the caller must wait.
/// - Throws: `TestFailure` if the program cannot be started.
public func spawn(
  _ executable: String, _ arguments: [String], _ environment: [String: String]?, onto descriptors: [Int32]
) throws -> Int32 {
  if Layer.isUnit { throw TestFailure("A unit test starts no program: give it the trait `.otherPrograms`.") }
  var actions = unsafe posix_spawn_file_actions_t()
  unsafe posix_spawn_file_actions_init(&actions)
  defer { unsafe _ = posix_spawn_file_actions_destroy(&actions) }
  for (target, descriptor) in descriptors.enumerated() {
    unsafe posix_spawn_file_actions_adddup2(&actions, descriptor, Int32(target))
  }

  var child: pid_t = 0
  let code = unsafe withCStrings([executable] + arguments) { arguments in
    guard let environment else {
      return unsafe posix_spawnp(&child, executable, &actions, nil, arguments, environ)
    }
    return unsafe withCStrings(environment.map { "\($0)=\($1)" }) { environment in
      unsafe posix_spawnp(&child, executable, &actions, nil, arguments, environment)
    }
  }
  guard code == 0 else {
    throw TestFailure("'\(executable)' cannot be started: \(unsafe String(cString: strerror(code))).")
  }
  return child
}

/// Calls `body` with a null-terminated array of C strings, as `exec` and related functions require.
private func withCStrings<Result>(
  _ strings: [String], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Result
) -> Result {
  var pointers = unsafe strings.map { unsafe strdup($0) }
  unsafe pointers.append(nil)
  defer { unsafe pointers.forEach { unsafe free($0) } }
  return unsafe body(pointers)
}
