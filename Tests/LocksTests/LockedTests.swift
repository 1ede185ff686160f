import Locks
import Testing

@Suite("Locked state")
struct LockedTests {
  private struct Refused: Error, Equatable {}

  @Test("keeps every change that concurrent threads make")
  func threads() throws {
    let sum = Locked(0)
    let threads = try (0..<4).map { _ in
      try Thread {
        for _ in 0..<10_000 { sum.withLock { $0 += 1 } }
      }
    }
    for thread in threads { thread.join() }
    #expect(sum.withLock { $0 } == 40_000)
  }

  @Test("is unlocked after an error, which keeps its type, and keeps the changes made before the error")
  func errors() {
    let state = Locked([1])
    do throws(Refused) {
      try state.withLock { state throws(Refused) in
        state.append(2)
        throw Refused()
      }
      Issue.record("The error was lost.")
    } catch {
      #expect(error == Refused())
    }
    #expect(state.withLock { $0 } == [1, 2])
  }

  @Test("changes in place, so an array is not copied")
  func noCopy() {
    let state = Locked([UInt8](repeating: 0, count: 100_000))
    let before = state.withLock { unsafe $0.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) } }
    let after = state.withLock { bytes in
      bytes[7] = 1
      return unsafe bytes.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
    }
    #expect(before == after)
  }

  @Test("protects a value that is not Sendable")
  func notSendable() {
    final class Box { var number = 1 }
    let state = Locked(Box())
    state.withLock { $0.number += 1 }
    #expect(state.withLock { $0.number } == 2)
  }
}
