import Glibc
import TestSupport
import Testing

@testable import Telemetry

@Suite("A line whose end the disk has no room for")
struct TornLineTests {
  let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  /// A file that has room for 4096 bytes more: this process may make none larger than 1 GiB, and it nearly is.
  static func fullDisk(in directory: TemporaryDirectory) throws -> Int32 {
    signal(SIGXFSZ, SIG_IGN)
    let fileSize = __rlimit_resource_t(RLIMIT_FSIZE.rawValue)
    var limit = rlimit()
    try #require(unsafe getrlimit(fileSize, &limit) == 0)
    limit.rlim_cur = 1 << 30
    try #require(unsafe setrlimit(fileSize, &limit) == 0)
    let file = unsafe open(directory.path(of: "disk"), O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    try #require(file >= 0 && lseek(file, (1 << 30) - 4096, SEEK_SET) > 0)
    return file
  }

  /// One that goes elsewhere once ten lines could not be written.
  final class Moving: LogTarget {
    private(set) var descriptor: Int32
    private let next: Int32
    private var hasFailed = false

    init(_ first: Int32, next: Int32) { (descriptor, self.next) = (first, next) }

    func prepare() -> Bool {
      if hasFailed { descriptor = next }
      return hasFailed
    }

    func finish(lostLines: Int, error: Int32) { hasFailed = lostLines == 10 && error == EFBIG }
  }

  /// Writes fifty lines of a hundred bytes: the room ends in the forty-first.
  static func overfill(_ sink: LogSink) {
    for _ in 0..<50 { LogSinkTests.write(String(repeating: "x", count: 99), to: sink) }
    #expect(sink.flush(timeout: .seconds(60)))
    #expect(sink.lostLines == 10)
  }

  @Test("is ended before the next one begins, and counts as lost")
  func ended() throws {
    let disk = try Self.fullDisk(in: directory)
    defer { close(disk) }
    let pipe = try TestPipe()
    let sink = LogSink(descriptor: disk, format: .text)
    Self.overfill(sink)
    // There is room again.
    try #require(dup2(pipe.writeEnd, disk) >= 0)
    LogSinkTests.write("next", to: sink)
    #expect(sink.flush(timeout: .seconds(60)))
    #expect(pipe.readAvailable().hasPrefix("\nnext\n"))
  }

  @Test("is not ended in another file than it began in")
  func otherFile() throws {
    let disk = try Self.fullDisk(in: directory)
    defer { close(disk) }
    let pipe = try TestPipe()
    let sink = LogSink(target: Moving(disk, next: pipe.writeEnd), format: .text)
    Self.overfill(sink)
    LogSinkTests.write("next", to: sink)
    #expect(sink.flush(timeout: .seconds(60)))
    #expect(pipe.readAvailable().hasPrefix("next\n"))
  }
}
