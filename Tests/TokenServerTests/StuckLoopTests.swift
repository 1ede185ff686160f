import Dispatch
import EventLoop
import TestSupport
import Testing

@testable import TokenServer

@Suite struct StuckLoopTests {
  @Test("a loop that does not end its turn is stuck, and a loop that waits is not")
  func progress() throws {
    let loops = try (0..<2).map { try IOLoop.start(label: "test.\($0)") }
    defer { for loop in loops { loop.stop() } }
    let health = Health(loops)
    let isBusy = DispatchSemaphore(value: 0)
    let end = DispatchSemaphore(value: 0)
    loops[1].post {
      isBusy.signal()
      end.wait()
    }
    isBusy.wait(for: "the turn")
    #expect(!health.loopsMakeProgress(within: .nanoseconds(1)))
    #expect(health.loopsMakeProgress(within: .seconds(600)))
    end.signal()
    wait(for: "the end of the turn") { health.loopsMakeProgress(within: .nanoseconds(1)) }
  }
}
