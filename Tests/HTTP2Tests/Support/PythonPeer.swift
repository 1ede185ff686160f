import Glibc
import HTTP2
import TestSupport

/// An independent peer at the other end of a socket: Python with the package h2.
final class PythonPeer {
  /// Python with h2.
  private static let python = unsafe getenv("TEST_PYTHON").map { unsafe String(cString: $0) } ?? "python3"
  private static let script =
    String("\(#filePath)".split(separator: "/").dropLast(3).map { "/" + $0 }.joined()) + "/Python/h2_peer.py"

  private let process: ChildProcess

  /// Starts the peer as `client` or `server`.
  init(_ role: String) throws {
    process = try ChildProcess(Self.python, [Self.script, role], holdsInput: true)
  }

  /// Passes bytes in both directions until `isDone`, or until the peer closes.
  func run(_ end: End, until isDone: () -> Bool) throws {
    while true {
      process.send(end.output())
      if isDone() || end.session.isOver { return }
      guard let bytes = try process.bytes() else { return }
      try end.receive(bytes)
    }
  }

  /// Closes the connection and waits for the peer to end.
  /// - Returns: The error that the peer reported; empty for none.
  func finish() throws -> String {
    // Reads the remaining output, so that only the peer's own checks end the peer.
    process.closeInput()
    while try process.bytes() != nil {}
    let status = process.wait()
    return status == 0 ? "" : "status \(status): \(process.standardError)"
  }
}
