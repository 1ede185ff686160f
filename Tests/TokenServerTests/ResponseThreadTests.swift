import Dispatch
import HTTPMessages
import HTTPTypes
import Locks
import TestSupport
import Testing
import Tracing

@testable import TokenServer

@Suite("Responses that a thread of their own makes")
struct ResponseThreadTests {
  @Test("are made by 16 threads at most, and the next request gets 503 at once")
  func most() async throws {
    var ids = TraceIDGenerator()
    let id = RequestID(ids.next())
    let gate = DispatchSemaphore(value: 0)
    let begun = Locked(0)
    let made = (0..<16).map { _ in
      Task {
        await Response.onThread(requestID: id) {
          begun.withLock { $0 += 1 }
          gate.wait()
          return Response(.ok)
        }
      }
    }
    try await until("all threads are busy") { begun.withLock { $0 } == 16 }
    let refused = await Response.onThread(requestID: id) { Response(.ok) }
    #expect(refused.status == .serviceUnavailable)
    for _ in made { gate.signal() }
    for task in made { #expect(await task.value.status == .ok) }
    #expect(await Response.onThread(requestID: id) { Response(.ok) }.status == .ok)
  }
}
