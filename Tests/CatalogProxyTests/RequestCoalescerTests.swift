import HTTP1
import HTTPTypes
import TestSupport
import Testing

@testable import CatalogProxy
@testable import HTTPCache

@Suite("Coalesced requests")
struct RequestCoalescerTests {
  private let key = CacheKey("/a")

  @Test("a thousand equal requests make one upstream request and are answered once each, in order")
  func collapsed() {
    var flights = RequestCoalescer<Int, String>()
    let first = flights.join(key, 0) { _ in "work" }
    #expect(first.work != nil)
    for waiter in 1..<1000 {
      let (ticket, work) = flights.join(key, waiter) { _ in "work" }
      #expect(work == nil && ticket.flight == first.ticket.flight)
    }
    #expect(flights.count == 1)
    #expect(flights.all(first.ticket.flight) == Array(0..<1000))
    #expect(flights.all(first.ticket.flight) == [])
    #expect(flights.count == 0)
  }

  @Test("an upstream request continues after its first caller leaves")
  func leaderLeaves() {
    var flights = RequestCoalescer<String, String>()
    let (leader, _) = flights.join(key, "leader") { _ in "work" }
    _ = flights.join(key, "follower") { _ in "work" }
    guard case ("leader", nil)? = flights.leave(leader) else { return #expect(Bool(false)) }
    guard flights.leave(leader) == nil else { return #expect(Bool(false)) }
    #expect(flights.all(leader.flight) == ["follower"])
  }

  @Test("an upstream request is cancelled when its last caller leaves, and later callers start another")
  func lastLeaves() {
    var flights = RequestCoalescer<String, String>()
    let (one, _) = flights.join(key, "one") { _ in "first" }
    let (two, _) = flights.join(key, "two") { _ in "work" }
    guard case ("one", nil)? = flights.leave(one) else { return #expect(Bool(false)) }
    guard case ("two", "first"?)? = flights.leave(two) else { return #expect(Bool(false)) }
    let (three, next) = flights.join(key, "three") { _ in "work" }
    #expect(next != nil && three.flight != one.flight)
    #expect(flights.all(one.flight) == [])
    #expect(flights.all(three.flight) == ["three"])
    guard flights.leave(three) == nil else { return #expect(Bool(false)) }
  }

  @Test("every waiter is answered exactly once in any order of events", arguments: 0..<20)
  func random(seed: UInt64) {
    var random = SplitMix(seed: seed)
    var flights = RequestCoalescer<Int, String>()
    var waiting: [FlightID: [Int: FlightTicket]] = [:]
    var answered: [Int: Int] = [:]
    for waiter in 0..<2000 {
      let key = CacheKey("/\(Int.random(in: 0..<4, using: &random))")
      let (ticket, work) = flights.join(key, waiter) { _ in "work" }
      #expect((work != nil) == (waiting[ticket.flight] == nil))
      waiting[ticket.flight, default: [:]][waiter] = ticket
      guard let flight = waiting.keys.sorted(by: { $0.serial < $1.serial }).randomElement(using: &random) else {
        continue
      }
      switch Int.random(in: 0..<8, using: &random) {
      case 0:
        let members = waiting.removeValue(forKey: flight) ?? [:]
        let woken = flights.all(flight)
        #expect(woken == members.keys.sorted())
        for waiter in woken { answered[waiter, default: 0] += 1 }
      case 1...4:
        guard let member = waiting[flight]?.min(by: { $0.key < $1.key }) else { continue }
        waiting[flight]?[member.key] = nil
        let isLast = waiting[flight]?.isEmpty ?? true
        if isLast { waiting[flight] = nil }
        guard case (member.key, let abandoned)? = flights.leave(member.value), (abandoned != nil) == isLast else {
          return #expect(Bool(false))
        }
        answered[member.key, default: 0] += 1
      default: break
      }
    }
    for flight in Array(waiting.keys) { for waiter in flights.all(flight) { answered[waiter, default: 0] += 1 } }
    #expect(flights.count == 0)
    #expect(answered.count == 2000 && answered.values.allSatisfy { $0 == 1 })
  }
}

extension RequestCoalescer {
  /// Ends a flight and returns all its waiters.
  fileprivate mutating func all(_ id: FlightID) -> [Waiter] {
    let (first, others) = complete(id)
    return (first.map { [$0] } ?? []) + others
  }
}
