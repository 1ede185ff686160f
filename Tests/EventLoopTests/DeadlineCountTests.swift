import TestSupport
import Testing

@testable import EventLoop

/// Every open connection has an armed deadline when its loop has nothing to do.
@Suite struct DeadlineCountTests {
  @Test("only connections without a deadline are counted")
  func count() throws {
    let loop = try IOLoop.forTest(.epoll)
    let pair = try Pair(on: loop, isConnection: true)
    let heard = Listening()
    func count(after action: @escaping @Sendable (Channel) -> Void) -> Int {
      loop.loop.performAndWait { action(pair.channel) }
      // The count is taken at the end of the last turn.
      loop.loop.performAndWait {}
      return loop.loop.connectionsWithoutDeadline
    }
    #expect(count { _ in } == 1)
    #expect(count { $0.watch(until: Deadline.now.advanced(by: .seconds(60)), heard) } == 0)
    #expect(count { $0.unwatch() } == 1)
    #expect(count { $0.watch(until: .never, heard) } == 1)
    #expect(count { $0.sleep(until: Deadline.now.advanced(by: .seconds(60)), heard) } == 0)
    #expect(count { $0.cancel() } == 1)
    #expect(count { $0.sleep(until: Deadline.now.advanced(by: .seconds(60)), heard) } == 0)
    #expect(count { $0.close() } == 0)
    let other = try Pair(on: loop, isConnection: true)
    #expect(count { _ in } == 1)
    #expect(count { _ in other.channel.close() } == 0)
  }

  @Test("a waiting task keeps its deadline when the delegate is removed")
  func taskKeepsDeadline() async throws {
    let loop = try IOLoop.forTest(.epoll)
    let pair = try Pair(on: loop)
    let wait = Task(executorPreference: loop.loop) {
      Task(executorPreference: loop.loop) { pair.channel.unwatch() }
      return await pair.channel.wait(for: .read, until: loop.loop.now.advanced(by: .milliseconds(50)))
    }
    #expect(await wait.value == .timedOut)
  }

  #if DEBUG
    @Test("a debug build stops at a connection without a deadline", .realSeconds)
    func stops() async {
      await #expect(processExitsWith: .failure) {
        let loop = try IOLoop.forTest(.epoll)
        _ = try Pair(on: loop, isConnection: true, isFatal: true)
        loop.loop.performAndWait {}
        loop.loop.performAndWait {}
      }
    }
  #endif
}
