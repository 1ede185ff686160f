import EventLoop
import Testing

@testable import HTTPServer

@Suite struct HandshakeQueueTests {
  private static let limits = ServerLimits()
  private let start = Deadline.now

  @Test("addresses take turns, and each address's connections keep their order")
  func turns() {
    var queue = HandshakeQueue<Int>()
    for number in 0..<5 { queue.add(number, of: 1, at: start) }
    queue.add(10, of: 2, at: start)
    queue.add(20, of: nil, at: start)
    queue.add(11, of: 2, at: start)
    var order: [Int] = []
    while let next = queue.next(at: start, limits: Self.limits) {
      order.append(next.element)
      #expect(next.isTimely)
    }
    #expect(order == [0, 10, 1, 20, 11, 2, 3, 4])
    #expect(queue.isEmpty)
  }

  @Test("an address with one connection waits for one other handshake, however many addresses have lines")
  func few() {
    var queue = HandshakeQueue<Int>()
    for number in 0..<1000 { queue.add(number, of: UInt128(number % 100), at: start) }
    for _ in 0..<300 { _ = queue.next(at: start, limits: Self.limits) }
    queue.add(-1, of: 1000, at: start)
    let next = (0..<2).map { _ in queue.next(at: start, limits: Self.limits)?.element }
    #expect(next.contains(-1))
  }

  @Test("a standing line refuses late connections, and no other line does")
  func standing() {
    var queue = HandshakeQueue<Int>()
    var verdicts: [Bool] = []
    // Each tenth of a second three arrive and one is served, for five seconds.
    for tenth in 0..<50 {
      let now = start.advanced(by: .milliseconds(100 * tenth))
      for _ in 0..<3 { queue.add(1, of: 1, at: now) }
      if let next = queue.next(at: now.advanced(by: .milliseconds(99)), limits: Self.limits) {
        verdicts.append(next.isTimely)
      }
    }
    // The first ones are prompt or a burst; then all are late.
    #expect(verdicts.prefix(3).allSatisfy { $0 })
    #expect(verdicts.suffix(30).allSatisfy { !$0 })
    #expect(queue.refuses(1))
    #expect(!queue.refuses(2))
    let now = start.advanced(by: .seconds(5))
    queue.add(2, of: 2, at: now)
    var other: Bool?
    while let next = queue.next(at: now.advanced(by: .milliseconds(90)), limits: Self.limits) {
      if next.element == 2 { other = next.isTimely }
    }
    #expect(other == true)
    #expect(!queue.refuses(1), "the line is empty")
  }

  @Test("too many lines are a standing queue as well, even with one connection each")
  func lines() {
    var queue = HandshakeQueue<Int>()
    var verdicts: [Bool] = []
    for hundredth in 0..<200 {
      let now = start.advanced(by: .milliseconds(10 * hundredth))
      for number in 0..<3 { queue.add(number, of: UInt128(hundredth * 3 + number), at: now) }
      if let next = queue.next(at: now, limits: Self.limits) { verdicts.append(next.isTimely) }
    }
    #expect(verdicts.prefix(10).allSatisfy { $0 })
    #expect(verdicts.suffix(100).allSatisfy { !$0 })
  }
}
