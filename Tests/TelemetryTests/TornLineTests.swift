import Glibc
import TestSupport
import Testing

@testable import Telemetry

@Suite("A log line that the disk truncates")
struct TornLineTests {
  let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  /// A file with room for 4096 more bytes: the process may not grow a file beyond 1 GiB, and this file is almost that
  /// large.
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

  /// A target that switches to another descriptor after ten lines were lost, in one batch or more.
  final class Moving: LogTarget {
    private(set) var descriptor: Int32
    private let next: Int32
    private var (lost, hasFailed) = (0, false)

    init(_ first: Int32, next: Int32) { (descriptor, self.next) = (first, next) }

    func prepare() -> Bool {
      if hasFailed { descriptor = next }
      return hasFailed
    }

    func finish(lostLines: Int, error: Int32) {
      lost += lostLines
      hasFailed = lost == 10 && error == EFBIG
    }
  }

  /// Writes fifty lines of 100 bytes each: the space ends within the forty-first line.
  static func overfill(_ sink: LogSink) {
    for _ in 0..<50 { LogSinkTests.write(String(repeating: "x", count: 99), to: sink) }
    #expect(sink.flush(timeout: .seconds(60)))
    #expect(sink.lostLines == 10)
  }

  @Test("ends before the next line begins and counts as lost")
  func ended() throws {
    let disk = try Self.fullDisk(in: directory)
    defer { close(disk) }
    let pipe = try TestPipe()
    let sink = LogSink(descriptor: disk, format: .text)
    Self.overfill(sink)
    // The descriptor has room again.
    try #require(dup2(pipe.writeEnd, disk) >= 0)
    LogSinkTests.write("next", to: sink)
    #expect(sink.flush(timeout: .seconds(60)))
    // The report of the lost lines is before the line if the sink has tried again meanwhile.
    let text = pipe.readAvailable()
    #expect(text.hasPrefix("\n") && text.contains("\nnext\n"))
  }

  @Test("gets no line feed in a different file")
  func otherFile() throws {
    let disk = try Self.fullDisk(in: directory)
    defer { close(disk) }
    let pipe = try TestPipe()
    let sink = LogSink(target: Moving(disk, next: pipe.writeEnd), format: .text)
    Self.overfill(sink)
    LogSinkTests.write("next", to: sink)
    #expect(sink.flush(timeout: .seconds(60)))
    let text = pipe.readAvailable()
    #expect(!text.hasPrefix("\n") && text.contains("next\n"))
  }
}
