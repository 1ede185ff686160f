import ArgumentParser
import Glibc
import TokenServer

extension CommandResult {
  /// Prints what there is to print and ends the command.
  ///
  /// - Throws: `ExitCode` unless the status is good.
  func finish() throws(ExitCode) {
    Self.print(output, to: STDOUT_FILENO)
    Self.print(diagnostics, to: STDERR_FILENO)
    if status != .good { throw ExitCode(status.rawValue) }
  }

  /// Writes lines without a buffer, so that none are lost or out of order at the end.
  static func print(_ lines: [String], to descriptor: Int32) {
    var rest = Array(lines.map { $0 + "\n" }.joined().utf8)[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
      guard count > 0 || errno == EINTR else { return }  // nobody is left to be told
      rest = rest.dropFirst(max(count, 0))
    }
  }
}
