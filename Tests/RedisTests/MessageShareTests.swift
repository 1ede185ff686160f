import EventLoop
import Testing

@testable import Redis

@Suite("The share of messages in a loop's time")
struct MessageShareTests {
  private static func at(_ microseconds: UInt64) -> Deadline { Deadline(nanoseconds: microseconds * 1000) }

  @Test("is a fifth: messages of 500 µs in a row are read at once, and then there is a pause of four times that")
  func row() {
    var share = MessageShare()
    for start in stride(from: UInt64(1000), to: 1500, by: 10) {
      #expect(share.add(from: Self.at(start), to: Self.at(start + 10)) == nil)
    }
    #expect(share.add(from: Self.at(1500), to: Self.at(1501)) == Self.at(1000 + 5 * 501))
  }

  @Test("does not fill up while no messages come")
  func rest() {
    var share = MessageShare()
    #expect(share.add(from: Self.at(1000), to: Self.at(1400)) == nil)
    for start: UInt64 in [1_000_000, 2_000_000] {
      #expect(share.add(from: Self.at(start), to: Self.at(start + 500)) == nil)
      #expect(share.add(from: Self.at(start + 500), to: Self.at(start + 600)) == Self.at(start + 3000))
    }
  }

  @Test("counts messages that come one by one")
  func trickle() {
    var share = MessageShare()
    var pauses = 0
    var now: UInt64 = 1000
    for _ in 1...1000 {
      // A message of 40 µs each 100 µs would take two fifths.
      if let time = share.add(from: Self.at(now), to: Self.at(now + 40)) {
        pauses += 1
        now = max(now, time.nanoseconds / 1000)
      }
      now += 100
    }
    #expect(pauses > 10 && now >= 1000 * 40 * 5)
  }
}
