import Dispatch
import Glibc
import TestSupport
import Testing

@testable import ServerSettings
@testable import TokenServer

@Suite("A small file")
struct SmallFileTests {
  /// A pipe whose reading end does not block, as that of a shell's `<(…)` when it is opened again.
  private static func pipe() throws -> (reading: Int32, writing: Int32) {
    var ends: [Int32] = [-1, -1]
    let result = unsafe Glibc.pipe(&ends)
    try #require(result == 0)
    let flags = fcntl(ends[0], F_SETFL, O_NONBLOCK)
    try #require(flags == 0)
    return (ends[0], ends[1])
  }

  @Test("that is a pipe is read to its end, although its bytes come late")
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
    // There is nothing yet: without a wait this is an error.
    var byte: UInt8 = 0
    let count = unsafe read(reading, &byte, 1)
    let error = errno
    #expect(count < 0 && error == EAGAIN)
    isEmpty.signal()
    #expect(try SmallFile.read(reading, atMost: 4, within: .seconds(60)) == Array("late".utf8))
  }

  @Test("that never ends is given up, and the error says so")
  func unfinished() throws {
    let (reading, writing) = try Self.pipe()
    defer {
      close(reading)
      close(writing)
    }
    _ = unsafe write(writing, "{", 1)
    #expect(throws: SmallFile.Failure.unfinished(seconds: 0)) {
      try SmallFile.read(reading, atMost: 4, within: .milliseconds(1))
    }
    #expect("\(SmallFile.Failure.unfinished(seconds: 30))" == "has not come to its end within 30 s")
  }

  @Test("that holds more than is allowed is refused before its end")
  func tooLarge() throws {
    let (reading, writing) = try Self.pipe()
    defer {
      close(reading)
      close(writing)
    }
    _ = unsafe write(writing, "12345", 5)
    #expect(throws: SmallFile.Failure.tooLarge) { try SmallFile.read(reading, atMost: 4, within: .seconds(60)) }
  }

  @Test("that is a pipe is not watched for changes")
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
