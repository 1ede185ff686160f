import Locks
import TestSupport
import Testing

@testable import EventLoop

@Suite struct LoopPulseTests {
  @Test("a loop that hangs ends the signs of life, and they continue when it does", arguments: [0, 1, 2])
  func hangs(_ hanging: Int) async throws {
    let loops = try (0..<3).map { _ in try IOLoop.forTest(.epoll) }
    let beats = Notes<Bool>()
    LoopPulse.start(on: loops.map(\.loop), every: .milliseconds(1)) { beats.add(true) }
    beats.wait(for: 3)
    let (hangs, released) = (Notes<Bool>(), Notes<Bool>())
    loops[hanging].loop.post {
      hangs.add(true)
      released.wait(for: 1)
    }
    hangs.wait(for: 1)
    if hanging != 0 {
      // What the hanging loop has passed on is still under way, through the loops behind it, in order.
      for loop in loops[(hanging + 1)...] { loop.loop.performAndWait {} }
      loops[0].loop.performAndWait {}
    }
    let before = beats.all.count
    if hanging != 0 {
      let first = loops[0].loop
      try await Task(executorPreference: first) { try await first.pause(for: .milliseconds(20)) }.value
    }
    #expect(beats.all.count == before)
    released.add(true)
    beats.wait(for: before + 3)
  }

  @Test("one loop alone gives signs of life, and they end with the loop")
  func alone() throws {
    let loop = try IOLoop.start(label: "test.loop")
    let beats = Notes<Bool>()
    LoopPulse.start(on: [loop], every: .milliseconds(1)) { beats.add(true) }
    beats.wait(for: 3)
    loop.stopAndWait()
  }
}
