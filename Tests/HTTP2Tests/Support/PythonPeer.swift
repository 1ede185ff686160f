import Glibc
import HTTP2
import TestSupport

/// A peer that is not ours, at the other end of a socket: Python with the package h2.
final class PythonPeer {
  /// Python with h2.
  private static let python = unsafe getenv("TEST_PYTHON").map { unsafe String(cString: $0) } ?? "python3"
  private static let script =
    String("\(#filePath)".split(separator: "/").dropLast(3).map { "/" + $0 }.joined()) + "/Python/h2_peer.py"

  private let socket: Int32
  private let process: Int32
  /// Where it writes what it finds wrong: less than the socket holds.
  private let errors: Int32

  /// Starts it as `client` or `server`.
  init(_ role: String) throws {
    var ends: [Int32] = [-1, -1]
    var errorEnds: [Int32] = [-1, -1]
    let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
    guard unsafe socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw TestFailure("There is no socket pair.") }
    guard unsafe socketpair(AF_UNIX, kind, 0, &errorEnds) == 0 else { throw TestFailure("There is no socket pair.") }
    (socket, errors) = (ends[0], errorEnds[0])
    defer {
      close(ends[1])
      close(errorEnds[1])
    }
    process = try spawn(Self.python, [Self.script, role], nil, onto: [ends[1], ends[1], errorEnds[1]])
  }

  /// Passes bytes to and fro until `isDone`, or until the peer closes.
  func run(_ end: End, until isDone: () -> Bool) throws {
    var buffer = [UInt8](repeating: 0, count: 4000)
    while true {
      try write(end.output())
      if isDone() || end.session.isOver { return }
      let count = unsafe read(socket, &buffer, buffer.count)
      guard count > 0 else { return }
      try end.receive(Array(buffer.prefix(count)))
    }
  }

  /// Closes the connection and waits for the peer to end.
  /// - Returns: What it found wrong; empty for nothing.
  func finish() -> String {
    // What it still says is taken, so that nothing but its own judgement ends it.
    shutdown(socket, Int32(SHUT_WR))
    var rest = [UInt8](repeating: 0, count: 4000)
    while unsafe read(socket, &rest, rest.count) > 0 {}
    close(socket)
    var status: Int32 = 0
    while unsafe waitpid(process, &status, 0) < 0, errno == EINTR {}
    defer { close(errors) }
    var text = [UInt8](repeating: 0, count: 65_536)
    let count = unsafe read(errors, &text, text.count)
    return status == 0 ? "" : "status \(status): \(String(decoding: text.prefix(max(0, count)), as: UTF8.self))"
  }

  private func write(_ bytes: [UInt8]) throws {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes {
        unsafe send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { throw TestFailure("The peer does not take what it is sent.") }
      rest = rest.dropFirst(count)
    }
  }
}
