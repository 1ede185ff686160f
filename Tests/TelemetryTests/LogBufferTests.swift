import Testing

@testable import Telemetry

@Suite("The buffer of a log")
struct LogBufferTests {
  private static func append(_ text: String, _ rank: LineRank, to buffer: inout LogBuffer) -> Bool {
    buffer.append(rank) { $0.append(contentsOf: (text + "\n").utf8) }
  }

  private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

  @Test("drops a line that does not fit into the buffer and keeps the other lines whole")
  func capacity() {
    var buffer = LogBuffer(capacity: 10, format: .text)
    buffer.append { $0.append(contentsOf: "12345\n".utf8) }
    buffer.append { $0.append(contentsOf: "67890\n".utf8) }
    buffer.append { $0.append(contentsOf: "6789".utf8) }
    #expect(String(decoding: buffer.bytes, as: UTF8.self) == "12345\n6789")
    #expect(buffer.dropped == 1)
    buffer.reportDropped(time: .now())
    #expect(buffer.dropped == 1, "a report that does not fit is not lost")
  }

  @Test("has room for messages when refusals and access lines have none left, and for records when no line has")
  func ranks() {
    var buffer = LogBuffer(capacity: 1600, format: .json)
    var taken: [LineRank: Int] = [:]
    // Each line has 100 bytes, and each rank gets all that it may have before the next one.
    for rank in LineRank.allCases {
      for _ in 0..<100 where Self.append(String(repeating: "x", count: 99), rank, to: &buffer) {
        taken[rank, default: 0] += 1
      }
    }
    #expect(taken == [.access: 8, .refusal: 4, .message: 4, .grant: 8, .tokenGrant: 7, .keyEvent: 1])
  }

  @Test("keeps lines and records in the order of their arrival")
  func order() {
    var buffer = LogBuffer(capacity: 100, format: .json)
    for (text, rank) in [("a", LineRank.access), ("b", .tokenGrant), ("c", .message), ("d", .keyEvent)] {
      #expect(Self.append(text, rank, to: &buffer))
    }
    #expect(Self.text(buffer.bytes) == "a\nb\nc\nd\n")
  }

  @Test(
    "keeps the records of a batch that was not written, before later lines, and counts the other lines as lost",
    arguments: [
      // Everything failed, the first record was cut, or only the last line failed.
      (written: 0, lost: 2, kept: "b\nd\ne\nf\n"), (written: 3, lost: 1, kept: "b\nd\ne\nf\n"),
      (written: 4, lost: 1, kept: "d\ne\nf\n"), (written: 6, lost: 0, kept: "d\ne\nf\n"),
      (written: 8, lost: 0, kept: "e\nf\n"),
    ])
  func failure(_ written: Int, _ lost: Int, _ kept: String) {
    var buffer = LogBuffer(capacity: 64, format: .json)
    for (text, rank) in [("a", LineRank.access), ("b", .grant), ("c", .message), ("d", .tokenGrant)] {
      #expect(Self.append(text, rank, to: &buffer))
    }
    var batch = LogBuffer.Batch()
    buffer.take(into: &batch)
    #expect(buffer.recordBytes == 4, "records count until they are written")
    #expect(Self.append("e", .tokenGrant, to: &buffer) && Self.append("f", .message, to: &buffer))
    #expect(batch.lostLines(unwritten: 8 - written) == lost)
    buffer.finish(batch, unwritten: 8 - written)
    #expect(Self.text(buffer.bytes) == kept)
    // The places of the records are right: a second failure keeps the same ones.
    buffer.take(into: &batch)
    buffer.finish(batch, unwritten: batch.bytes.count)
    #expect(Self.text(buffer.bytes) == kept.replacing("f\n", with: ""))
    buffer.take(into: &batch)
    buffer.finish(batch, unwritten: 0)
    #expect(buffer.bytes.isEmpty && buffer.recordBytes == 0)
  }
}
