import HTTP1
import HTTPTypes
import TestSupport
import Testing

@testable import CatalogProxy
@testable import UpstreamAdmission

@Suite("Deadlines of waits and turns")
struct DeadlineQueueTests {
  @Test("finished requests leave nothing behind, however many there were before the first deadline")
  func finished() async throws {
    let ground = ProxyGround { _ in .scripted(.ok, [.cacheControl: "no-store"]) }
    for _ in 0..<1000 { #expect(try await ground.ask("/v1/me/library/songs", user: "user").status == 200) }
    #expect(ground.proxy.withAdmission { $0.deadlines.count } <= DeadlineQueue.few)
  }

  @Test("an open wait stays, between any number of ended ones, and expires in the order of the deadlines")
  func open() {
    var queue = DeadlineQueue()
    let isOpen = { (item: DeadlineQueue.Item) in
      guard case .wait(let ticket) = item else { return false }
      return ticket.serial.isMultiple(of: 100)
    }
    for serial in 1...1000 as ClosedRange<UInt64> {
      queue.insert(.wait(QueueTicket(index: 0, serial: serial)), until: .seconds(2000 - Int(serial)), isOpen: isOpen)
    }
    #expect(queue.count <= 2 * DeadlineQueue.few)
    #expect(queue.removeExpired(now: .seconds(999)).isEmpty)
    let expired = queue.removeExpired(now: .seconds(2000)).filter(isOpen).map { item -> UInt64 in
      guard case .wait(let ticket) = item else { return 0 }
      return ticket.serial
    }
    #expect(expired == (1...10).map { $0 * 100 }.reversed())
    #expect(queue.count == 0 && queue.next == nil)
  }
}
