import Glibc
import Locks
import TestSupport

/// A server in a process of its own, killed when this goes.
final class Child: Sendable {
  /// Whether its number may be another process's by now.
  private let isWaitedFor = Locked(false)
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
    isWaitedFor.withLock { isWaitedFor in
      guard !isWaitedFor else { return }
      isWaitedFor = true
      _ = Glibc.kill(process, SIGKILL)
      var status: Int32 = 0
      while unsafe waitpid(process, &status, 0) < 0, errno == EINTR {}
    }
  }

  /// Whether it has come to an end by itself.
  var hasEnded: Bool {
    isWaitedFor.withLock { isWaitedFor in
      var status: Int32 = 0
      if !isWaitedFor, unsafe waitpid(process, &status, WNOHANG) == process { isWaitedFor = true }
      return isWaitedFor
    }
  }

  /// Stops it as if its machine were gone: its kernel still acknowledges, nobody answers.
  func freeze() { _ = Glibc.kill(process, SIGSTOP) }
}
