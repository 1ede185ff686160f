import ArgumentParser
import Glibc
import TokenServer

extension CommandResult {
  /// Prints what there is to print and ends the command.
  ///
  /// - Throws: `ExitCode` unless the status is good and what was asked for could be written.
  func finish() throws(ExitCode) {
    let failure = Self.print(output, to: STDOUT_FILENO).map { code in
      "Standard output cannot be written: \(unsafe String(cString: strerror(code)))."
    }
    Self.print(diagnostics + [failure].compactMap { $0 }, to: STDERR_FILENO)
    if status != .good { throw ExitCode(status.rawValue) }
    if failure != nil { throw ExitCode(Status.failed.rawValue) }
  }

  /// Writes lines without a buffer, so that none are lost or out of order at the end.
  ///
  /// - Returns: The error that ended it early; nil if all is written.
  @discardableResult
  static func print(_ lines: [String], to descriptor: Int32) -> Int32? {
    var rest = Array(lines.map { $0 + "\n" }.joined().utf8)[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
      guard count > 0 || errno == EINTR else { return errno }
      rest = rest.dropFirst(max(count, 0))
    }
    return nil
  }
}
