import Glibc
import Testing

/// A pipe that closes its open ends in `deinit`.
final class TestPipe {
  let readEnd: Int32
  private(set) var writeEnd: Int32

  init() throws {
    // Every server ignores this signal too; without this a write to a closed pipe would end the test run.
    signal(SIGPIPE, SIG_IGN)
    var ends: [Int32] = [-1, -1]
    try #require(unsafe pipe(&ends) == 0)
    readEnd = ends[0]
    writeEnd = ends[1]
  }

  deinit {
    close(readEnd)
    close(writeEnd)
  }

  /// Fills the pipe, so that the next write blocks. Returns the number of bytes written.
  func fill() -> Int {
    let flags = fcntl(writeEnd, F_GETFL)
    _ = fcntl(writeEnd, F_SETFL, flags | O_NONBLOCK)
    defer { _ = fcntl(writeEnd, F_SETFL, flags) }
    let chunk = [UInt8](repeating: UInt8(ascii: "."), count: 4096)
    var total = 0
    while true {
      let count = unsafe write(writeEnd, chunk, chunk.count)
      guard count > 0 else { return total }
      total += count
    }
  }

  /// Reads the current content of the pipe.
  func readAvailable() -> String {
    _ = fcntl(readEnd, F_SETFL, fcntl(readEnd, F_GETFL) | O_NONBLOCK)
    var content: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = unsafe read(readEnd, &chunk, chunk.count)
      guard count > 0 else { return String(decoding: content, as: UTF8.self) }
      content.append(contentsOf: chunk[..<count])
    }
  }

  /// Makes every further write fail with `EPIPE`.
  func breakIt() throws {
    let other = try TestPipe()
    try #require(dup2(other.readEnd, readEnd) >= 0)
  }
}
