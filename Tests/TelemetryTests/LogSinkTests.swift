import Dispatch
import Glibc
import Locks
import TestSupport
import Testing

@testable import Telemetry

@Suite("The log sink")
struct LogSinkTests {
  static func write(_ line: String, to sink: LogSink) {
    sink.append { bytes, _, _ in bytes.append(contentsOf: (line + "\n").utf8) }
  }

  @Test("writes lines in order without a flush")
  func order() async throws {
    let pipe = try TestPipe()
    let sink = LogSink(descriptor: pipe.writeEnd, format: .text)
    for number in 0..<1000 { Self.write("\(number)", to: sink) }
    let expected = (0..<1000).map { "\($0)\n" }.joined()
    var text = ""
    try await until("all lines arrive") {
      text += pipe.readAvailable()
      return text.utf8.count >= expected.utf8.count
    }
    #expect(text == expected)
  }

  @Test("writes before its delay if records have used a quarter of their room, so that no client's push out others")
  func hurry() throws {
    let pipe = try TestPipe()
    let sink = LogSink(target: FixedTarget(pipe.writeEnd), format: .text, capacity: 3600, delay: .seconds(3600))
    let record = String(repeating: "x", count: 99) + "\n"
    var text = ""
    for count in 1...100 {
      #expect(sink.append(.tokenGrant) { bytes, _, _ in bytes.append(contentsOf: record.utf8) })
      if count % 10 == 0 {
        // Without haste, the eleventh would wait for an hour, and the 36th have no room.
        wait(for: "the records are written") { sink.waitingRecords == 0 }
        text += pipe.readAvailable()
      }
    }
    #expect(text == String(repeating: record, count: 100))
  }

  @Test("does not block its callers when the reader stops, drops lines that do not fit, and reports their number")
  func blocked() throws {
    let pipe = try TestPipe()
    let filling = pipe.fill()
    let sink = LogSink(descriptor: pipe.writeEnd, format: .text, capacity: 1000)
    Self.write("first", to: sink)
    #expect(!sink.flush(timeout: .milliseconds(1)))
    // The writer blocks now or soon: from here on only the buffer takes lines. A line has 100 bytes, so ten lines fit.
    let line = String(repeating: "x", count: 99)
    for _ in 0..<10_000 { Self.write(line, to: sink) }
    var text = ""
    wait(for: "the sink to have written all lines") {
      text += pipe.readAvailable()
      return sink.flush(timeout: .milliseconds(1))
    }
    text += pipe.readAvailable()
    let lines = text.dropFirst(filling).split(separator: "\n")
    let kept = lines.count { $0 == line }
    let dropped = try #require(lines.last?.split(separator: "log.dropped=").last.flatMap { Int($0) })
    #expect(lines.first == "first")
    #expect(kept + dropped == 10_000)
    #expect((1...20).contains(kept))
  }

  /// A target that says when lines are about to be written, and adds up what it hears of lost ones.
  private final class Listening: LogTarget, @unchecked Sendable {
    let descriptor: Int32
    let begins = DispatchSemaphore(value: 0)
    let heard = Locked(0)

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    func prepare() -> Bool {
      begins.signal()
      return false
    }

    func finish(lostLines: Int, error: Int32) { heard.withLock { $0 += lostLines } }
  }

  @Test("counts records that are being written as waiting, and tells the target of lines without room")
  func stopped() throws {
    let pipe = try TestPipe()
    _ = pipe.fill()
    let target = Listening(pipe.writeEnd)
    let sink = LogSink(target: target, format: .text, capacity: 1000)
    sink.append(.tokenGrant) { bytes, _, _ in bytes.append(contentsOf: "record\n".utf8) }
    target.begins.wait()
    #expect(sink.waitingRecords == 1)
    for _ in 0..<100 { Self.write(String(repeating: "x", count: 99), to: sink) }
    #expect(sink.lostLines == 90)
    wait(for: "all lines are written") {
      _ = pipe.readAvailable()
      return sink.flush(timeout: .milliseconds(1))
    }
    #expect(sink.waitingRecords == 0)
    #expect(target.heard.withLock { $0 } == 90)
  }

  @Test("survives a pipe without a reader and counts the lost lines")
  func broken() throws {
    let pipe = try TestPipe()
    let sink = LogSink(descriptor: pipe.writeEnd, format: .json)
    try pipe.breakIt()
    for _ in 0..<3 {
      Self.write("lost", to: sink)
      #expect(sink.flush(timeout: .seconds(60)))
    }
    #expect(sink.lostLines == 3)
  }

  @Test("survives a full disk and counts the lost lines")
  func fullDisk() throws {
    let descriptor = unsafe open("/dev/full", O_WRONLY)
    try #require(descriptor >= 0)
    defer { close(descriptor) }
    let sink = LogSink(descriptor: descriptor, format: .json)
    for _ in 0..<3 { Self.write("lost", to: sink) }
    #expect(sink.flush(timeout: .seconds(60)))
    #expect(sink.lostLines == 3)
  }

  @Test("waits for a non-blocking descriptor and loses no line")
  func nonBlocking() throws {
    let pipe = try TestPipe()
    _ = fcntl(pipe.writeEnd, F_SETFL, O_NONBLOCK)
    let sink = LogSink(descriptor: pipe.writeEnd, format: .text)
    let line = String(repeating: "y", count: 999)
    for _ in 0..<500 { Self.write(line, to: sink) }  // far more than a pipe holds
    var text = ""
    wait(for: "the sink to have written all lines") {
      text += pipe.readAvailable()
      return sink.flush(timeout: .milliseconds(1))
    }
    text += pipe.readAvailable()
    #expect(text.utf8.count == 500_000)
  }

  @Test("keeps lines from many threads whole and in order per thread")
  func threads() throws {
    let pipe = try TestPipe()
    let sink = LogSink(descriptor: pipe.writeEnd, format: .text)
    DispatchQueue.concurrentPerform(iterations: 8) { thread in
      for number in 0..<100 { Self.write("\(thread) \(number)", to: sink) }
    }
    #expect(sink.flush(timeout: .seconds(60)))
    let lines = pipe.readAvailable().split(separator: "\n")
    for thread in 0..<8 {
      #expect(lines.filter { $0.hasPrefix("\(thread) ") } == (0..<100).map { "\(thread) \($0)" })
    }
  }

  @Test("records every grant although its reader stands still and refusals fill the log")
  func flood() throws {
    let pipe = try TestPipe()
    let filling = pipe.fill()
    let sink = LogSink(descriptor: pipe.writeEnd, format: .json)
    let audit = AuditLog(onto: sink)
    Self.write("first", to: sink)
    #expect(!sink.flush(timeout: .milliseconds(1)))
    for number in 0..<20_000 {
      audit.write(try AuditRecordTests.record(client: "-", .refused, reason: "no_credential"))
      if number % 200 == 0 { #expect(audit.write(try AuditRecordTests.record(client: "g\(number)", .granted))) }
    }
    audit.write(KeyAuditRecord(event: "key_promoted", keyID: "ABC1234567", fingerprint: "f"))
    #expect(sink.lostLines > 10_000 && audit.state.unrecorded == 0)
    var text = ""
    wait(for: "the sink to have written all lines") {
      text += pipe.readAvailable()
      return sink.flush(timeout: .milliseconds(1))
    }
    text += pipe.readAvailable()
    let lines = text.dropFirst(filling).split(separator: "\n")
    let granted = lines.compactMap { $0.firstMatch(of: /"client\.id":"(g[0-9]+)"/).map { String($0.output.1) } }
    #expect(granted == stride(from: 0, to: 20_000, by: 200).map { "g\($0)" })
    #expect(lines.contains { $0.contains("key_promoted") })
  }

  @Test("knows when a refusal had no room, apart from other lines")
  func lostRefusals() throws {
    let pipe = try TestPipe()
    _ = pipe.fill()
    let sink = LogSink(descriptor: pipe.writeEnd, format: .json, capacity: 10_000)
    let audit = AuditLog(onto: sink)
    while sink.append(.access, { bytes, _, _ in bytes += [UInt8](repeating: UInt8(ascii: "a"), count: 99) + [10] }) {}
    #expect(sink.lostLines > 0 && audit.state.sinceLost == nil)
    let refusal = try AuditRecordTests.record(.refused)
    while audit.write(refusal) {}
    #expect(audit.state.sinceLost != nil && audit.state.unrecorded == 0)
    wait(for: "the sink to have written all lines") {
      _ = pipe.readAvailable()
      return sink.flush(timeout: .milliseconds(1))
    }
  }

  @Test("counts grants that have no room, and says so until a minute has passed")
  func noRoom() throws {
    let pipe = try TestPipe()
    _ = pipe.fill()
    let sink = LogSink(descriptor: pipe.writeEnd, format: .json, capacity: 10_000)
    let audit = AuditLog(onto: sink)
    let token = AuditRecord.Token(
      keyID: "ABC123DEFG", origins: [], expiry: 0, digest: TokenDigest(AuditRecordTests.bytes))
    let grant = try AuditRecordTests.record(.granted, token: token)
    var taken = 0
    while taken < 100, audit.write(grant) { taken += 1 }
    #expect((1..<100).contains(taken))
    #expect(audit.state.unrecorded == 1)
    // Although some bytes are left, for which each record is too long.
    #expect(audit.state.isFull)
    #expect(try #require(audit.state.sinceUnrecorded) < .seconds(60) && !audit.state.isFailing)
    wait(for: "the sink to have written all lines") {
      _ = pipe.readAvailable()
      return sink.flush(timeout: .milliseconds(1))
    }
    #expect(!audit.state.isFull)
  }
}
