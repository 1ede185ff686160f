import Dispatch
import Glibc
import Locks
import TestSupport
import Testing

@testable import ServerSettings
@testable import TokenServer

@Suite("A small file")
struct SmallFileTests {
  /// A pipe whose read end is non-blocking, like the read end of a shell's `<(…)` after a second open.
  private static func pipe() throws -> (reading: Int32, writing: Int32) {
    var ends: [Int32] = [-1, -1]
    let result = unsafe Glibc.pipe(&ends)
    try #require(result == 0)
    let flags = fcntl(ends[0], F_SETFL, O_NONBLOCK)
    try #require(flags == 0)
    return (ends[0], ends[1])
  }

  @Test("can be a pipe whose bytes arrive late")
  func late() throws {
    let (reading, writing) = try Self.pipe()
    defer { close(reading) }
    let isEmpty = DispatchSemaphore(value: 0)
    DispatchQueue(label: "writer").async {
      isEmpty.wait(for: "the look into the empty pipe")
      for byte in "late".utf8 {
        var byte = byte
        _ = unsafe write(writing, &byte, 1)
      }
      close(writing)
    }
    // The pipe is still empty: without a wait this is an error.
    var byte: UInt8 = 0
    let count = unsafe read(reading, &byte, 1)
    let error = errno
    #expect(count < 0 && error == EAGAIN)
    isEmpty.signal()
    #expect(try SmallFile.read(reading, atMost: 4, within: ReadingTime(.seconds(60))) == Array("late".utf8))
  }

  @Test("has a time limit, and the error gives this limit")
  func unfinished() throws {
    let (reading, writing) = try Self.pipe()
    defer {
      close(reading)
      close(writing)
    }
    _ = unsafe write(writing, "{", 1)
    #expect(throws: SmallFile.Failure.unfinished(seconds: 0)) {
      try SmallFile.read(reading, atMost: 4, within: ReadingTime(.milliseconds(1)))
    }
    // Not wanted any more when it is asked for the third time.
    let looks = Locked(0)
    #expect(throws: SmallFile.Failure.unfinished(seconds: 60)) {
      let time = ReadingTime(.seconds(60)) {
        looks.withLock { looks in
          looks += 1
          return looks < 3
        }
      }
      _ = try SmallFile.read(reading, atMost: 4, within: time)
    }
    #expect(looks.withLock { $0 } == 3)
    #expect("\(SmallFile.Failure.unfinished(seconds: 30))" == "did not end within 30 s")
  }

  @Test("is rejected before its end if it is too large")
  func tooLarge() throws {
    let (reading, writing) = try Self.pipe()
    defer {
      close(reading)
      close(writing)
    }
    _ = unsafe write(writing, "12345", 5)
    #expect(throws: SmallFile.Failure.tooLarge) {
      try SmallFile.read(reading, atMost: 4, within: ReadingTime(.seconds(60)))
    }
  }

  @Test("is not watched for changes if it is a pipe")
  func fingerprint() throws {
    let (reading, writing) = try Self.pipe()
    defer { close(reading) }
    let path = "/dev/fd/\(reading)"
    let files = FileFingerprints([path])
    _ = unsafe write(writing, "12345", 5)
    close(writing)
    #expect(!files.haveChanged)
  }
}
