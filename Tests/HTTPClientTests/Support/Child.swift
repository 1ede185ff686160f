import Glibc
import TestSupport

/// A server in a process of its own, killed when this goes.
final class Child: Sendable {
  private let process: Int32
  private let input: Int32
  private let output: Int32

  /// Starts a program. Its standard input stays open for as long as this lives.
  init(_ executable: String, _ arguments: [String]) throws {
    var (inputs, outputs): ([Int32], [Int32]) = ([-1, -1], [-1, -1])
    guard unsafe pipe(&inputs) == 0, unsafe pipe(&outputs) == 0 else { throw TestFailure("There is no pipe.") }
    // The child gets duplicates, which stay open in it.
    for end in inputs + outputs { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    defer {
      close(inputs[0])
      close(outputs[1])
    }
    (input, output) = (inputs[1], outputs[0])
    process = try spawn(executable, arguments, nil, onto: [inputs[0], outputs[1], 2])
  }

  deinit {
    kill()
    close(input)
    close(output)
  }

  /// The first line that it prints.
  func line() throws -> String {
    var line: [UInt8] = []
    var byte: UInt8 = 0
    while unsafe read(output, &byte, 1) == 1 {
      if byte == 0x0a { return String(decoding: line, as: UTF8.self) }
      line.append(byte)
    }
    throw TestFailure("The server has ended without a word.")
  }

  /// Ends it at once.
  func kill() {
    // A process that has been waited for has no number that could be somebody else's: once only.
    guard Glibc.kill(process, SIGKILL) == 0 else { return }
    var status: Int32 = 0
    while unsafe waitpid(process, &status, 0) < 0, errno == EINTR {}
  }

  /// Stops it as if its machine were gone: its kernel still acknowledges, nobody answers.
  func freeze() { _ = Glibc.kill(process, SIGSTOP) }
}
