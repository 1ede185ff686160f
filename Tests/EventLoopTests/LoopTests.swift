import Dispatch
import Glibc
import TestSupport
import Testing

@testable import EventLoop

@Suite struct LoopTests {
  @Test("work left for the end of a turn runs after all work of the turn, and may add more work")
  func endOfTurn() throws {
    let loop = try IOLoop.forTest(.epoll)
    let notes = Notes<Int>()
    loop.loop.performAndWait {
      loop.loop.atEndOfTurn {
        notes.add(3)
        loop.loop.atEndOfTurn { notes.add(5) }
        Task(executorPreference: loop.loop) { notes.add(4) }
      }
      Task(executorPreference: loop.loop) { notes.add(2) }
      notes.add(1)
    }
    #expect(notes.wait(for: 5) == [1, 2, 3, 4, 5])
  }

  @Test(
    "work left for the end of the next turn runs one turn later, without an event",
    arguments: IOLoop.PollerKind.allCases)
  func endOfNextTurn(_ kind: IOLoop.PollerKind) throws {
    let loop = try IOLoop.forTest(kind)
    let notes = Notes<Int>()
    loop.loop.post {
      for _ in 0..<3 {
        loop.loop.atEndOfNextTurn {
          notes.add(loop.loop.turns)
          loop.loop.atEndOfNextTurn { notes.add(loop.loop.turns) }
        }
      }
      loop.loop.atEndOfTurn { notes.add(loop.loop.turns) }
    }
    let turns = notes.wait(for: 7)
    #expect(turns.map { $0 - turns[0] } == [0, 1, 1, 1, 2, 2, 2])
  }

  @Test(
    "a wait for a moment that has passed ends in the next turn, however often it begins again",
    arguments: IOLoop.PollerKind.allCases)
  func passedMoment(_ kind: IOLoop.PollerKind) throws {
    let loop = try IOLoop.forTest(kind)
    let pair = try Pair(on: loop)
    let restless = Restless()
    loop.loop.post { pair.channel.sleep(until: restless.past, restless) }
    let turns = restless.turns.wait(for: Restless.waits)
    #expect(zip(turns, turns.dropFirst()).allSatisfy(<), "\(turns)")
  }

  @Test("the present turn has a length while the loop works, and none while it waits")
  func presentTurn() throws {
    let loop = try IOLoop.forTest(.epoll)
    loop.whileBusy { #expect(loop.loop.presentTurn > .zero) }
    wait(for: "the loop's wait") { loop.loop.presentTurn == .zero }
  }

  @Test(
    "work that other threads post runs on the loop, in the order of each thread", arguments: IOLoop.PollerKind.allCases)
  func order(_ kind: IOLoop.PollerKind) throws {
    let loop = try IOLoop.forTest(kind)
    let notes = Notes<(thread: Int, number: Int, isCurrent: Bool)>()
    let threads = DispatchGroup()
    for thread in 0..<8 {
      DispatchQueue(label: "poster.\(thread)").async(group: threads) {
        for number in 0..<1000 { loop.loop.post { notes.add((thread, number, loop.loop.isCurrent)) } }
      }
    }
    let all = notes.wait(for: 8000)
    threads.wait(for: "the threads that post")
    #expect(all.allSatisfy { $0.isCurrent })
    for thread in 0..<8 { #expect(all.filter { $0.thread == thread }.map(\.number) == Array(0..<1000)) }
    #expect(!loop.loop.isCurrent)
  }

  @Test(
    "a task that prefers the loop stays on the loop, wherever the task is resumed",
    arguments: IOLoop.PollerKind.allCases)
  func tasks(_ kind: IOLoop.PollerKind) async throws {
    let loop = try IOLoop.forTest(kind)
    await withTaskGroup(of: Bool.self) { group in
      for _ in 0..<200 {
        group.addTask(executorPreference: loop.loop) {
          var stayed = loop.loop.isCurrent
          for _ in 0..<10 {
            await withCheckedContinuation { continuation in
              DispatchQueue.global().async { continuation.resume() }
            }
            stayed = stayed && loop.loop.isCurrent
          }
          return stayed
        }
      }
      for await stayed in group { #expect(stayed) }
    }
  }

  @Test("performAndWait returns after the work is done", arguments: IOLoop.PollerKind.allCases)
  func performAndWait(_ kind: IOLoop.PollerKind) throws {
    let loop = try IOLoop.forTest(kind)
    let notes = Notes<Int>()
    for number in 0..<1000 {
      loop.loop.performAndWait { notes.add(number) }
      #expect(notes.all.count == number + 1)
    }
  }

  @Test("a loop that stops closes its channels and ends their waits", arguments: IOLoop.PollerKind.allCases)
  func stop(_ kind: IOLoop.PollerKind) async throws {
    let loop = try IOLoop.forTest(kind)
    let pair = try Pair(on: loop)
    let isReady = Notes<Bool>()
    let task = Task(executorPreference: loop.loop) {
      isReady.add(true)
      return await pair.channel.wait(for: .read, until: .never)
    }
    isReady.wait(for: 1)
    loop.loop.stop()
    #expect(await task.value == .cancelled)
    #expect(pair.channel.raw == -1)
    var byte: UInt8 = 0
    #expect(unsafe read(pair.other, &byte, 1) == 0)
  }

  @Test(
    "a loop that has ended drops posted work, and performAndWait returns",
    arguments: IOLoop.PollerKind.allCases)
  func afterTheEnd(_ kind: IOLoop.PollerKind) throws {
    let loop = try IOLoop.forTest(kind)
    loop.loop.stop()
    wait(for: "the end of the loop") { !loop.loop.post({}) }
    loop.loop.performAndWait { Issue.record("It ran.") }
    weak let notes: Notes<Bool>?
    do {
      let kept = Notes<Bool>()
      notes = kept
      loop.loop.post { kept.add(true) }
    }
    #expect(notes == nil)
  }
}

/// A delegate that waits again and again for a moment that has passed, and notes the turns.
private final class Restless: ChannelDelegate, Sendable {
  static let waits = 10
  let past = Deadline.now
  let turns = Notes<Int>()

  func channel(_ channel: Channel, became readiness: Readiness) {
    turns.add(channel.loop.turns)
    if turns.all.count < Self.waits { channel.sleep(until: past, self) }
  }
}
