import EventLoop
import Testing

@testable import HTTPServer

@Suite struct TurnQueueTests {
  private static let limits = ServerLimits()
  private let start = Deadline.now

  @Test("addresses take turns, and each address's connections keep their order")
  func turns() {
    var queue = TurnQueue<Int>()
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
    var queue = TurnQueue<Int>()
    for number in 0..<1000 { queue.add(number, of: UInt128(number % 100), at: start) }
    for _ in 0..<300 { _ = queue.next(at: start, limits: Self.limits) }
    queue.add(-1, of: 1000, at: start)
    let next = (0..<2).map { _ in queue.next(at: start, limits: Self.limits)?.element }
    #expect(next.contains(-1))
  }

  @Test("under overload each line has its share of what the server does, and no other line waits")
  func standing() {
    var queue = TurnQueue<Int>()
    var done: [(waited: Duration, isModest: Bool)] = []
    var late = 0
    var isRefused: [Bool] = []
    var since: [Int: Deadline] = [:]
    // Each millisecond two arrive of one address, each tenth of a second one of another, and one is done.
    for millisecond in 0..<8000 {
      let now = start.advanced(by: .milliseconds(millisecond))
      for number in [2 * millisecond, 2 * millisecond + 1] {
        isRefused.append(queue.refuses(1, at: now, limits: Self.limits))
        guard isRefused.last == false else { continue }
        queue.add(number, of: 1, at: now)
        since[number] = now
      }
      if millisecond % 100 == 0 {
        let isFull = queue.refuses(2, at: now, limits: Self.limits)
        #expect(!isFull)
        queue.add(-millisecond - 1, of: 2, at: now)
        since[-millisecond - 1] = now
      }
      while let next = queue.next(at: now, limits: Self.limits), let arrival = since[next.element] {
        guard next.isTimely else {
          late += 1
          continue
        }
        done.append((now.duration(since: arrival), next.element < 0))
        break
      }
    }
    // A burst is served whole whose work takes a second, the other address's included.
    #expect(isRefused.prefix(1960).allSatisfy { !$0 })
    #expect(isRefused.suffix(4000).count { $0 } > 1800)
    // Work is refused before it waits: what waited in vain did so at the end of the burst.
    #expect(late < 1500)
    #expect(done.count > 7900, "the server is never idle")
    #expect(done.suffix(4000).allSatisfy { $0.waited <= Self.limits.lateWork })
    #expect(done.filter(\.isModest).allSatisfy { $0.waited <= .milliseconds(2) })
  }

  @Test("overload ends when nothing was refused for the length of a burst")
  func end() {
    var queue = TurnQueue<Int>()
    var now = start
    for millisecond in 0..<3000 {
      now = start.advanced(by: .milliseconds(millisecond))
      if !queue.refuses(1, at: now, limits: Self.limits) { queue.add(0, of: 1, at: now) }
      if millisecond % 10 == 0 { _ = queue.next(at: now, limits: Self.limits) }
    }
    let isFull = queue.refuses(1, at: now, limits: Self.limits)
    #expect(isFull)
    while queue.next(at: now, limits: Self.limits) != nil {}
    for isOver in [false, true] {
      now = now.advanced(by: Self.limits.burst * (isOver ? 2 : 0))
      for _ in 0..<1000 where !queue.refuses(1, at: now, limits: Self.limits) { queue.add(0, of: 1, at: now) }
      var count = 0
      while queue.next(at: now, limits: Self.limits) != nil { count += 1 }
      #expect((count == 1000) == isOver)
    }
  }

  @Test("work that had waited elsewhere is refused, and is no overload of others")
  func lateElsewhere() {
    var queue = TurnQueue<Int>()
    var refused = 0
    var now = start
    // One more always waits, for 50 ms.
    queue.add(-1, of: 1, at: now)
    for step in 0..<30 {
      now = start.advanced(by: .milliseconds(300 + 50 * step))
      queue.add(step, of: 1, since: start.advanced(by: .milliseconds(50 * step)), at: now)
      if queue.next(at: now, limits: Self.limits)?.isTimely == false { refused += 1 }
    }
    #expect(refused == 10, "all after a second")
    for number in 0..<4 {
      let isFull = queue.refuses(2, at: now, limits: Self.limits)
      #expect(!isFull)
      queue.add(number, of: 2, at: now)
    }
  }

  @Test("a flood is overload before it has filled the lines for the length of a burst")
  func flood() throws {
    var queue = TurnQueue<Int>()
    var firstRefusal: Int?
    for millisecond in 0..<1000 where firstRefusal == nil {
      let now = start.advanced(by: .milliseconds(millisecond))
      // Ten times as much as is done.
      for address in 0..<10 {
        if queue.refuses(UInt128(address), at: now, limits: Self.limits) { firstRefusal = millisecond }
        queue.add(0, of: UInt128(address), at: now)
      }
      _ = queue.next(at: now, limits: Self.limits)
    }
    // Over a hundred are done in the first 112 ms, and over a thousand wait.
    #expect(try (100...130).contains(#require(firstRefusal)))
  }

  @Test("while a flood is refused from its beginning, another address has its share")
  func shares() {
    var queue = TurnQueue<Int>()
    var refused = [1: 0, 2: 0]
    for millisecond in 0..<250 {
      let now = start.advanced(by: .milliseconds(millisecond))
      // Six requests of another address at once, each fiftieth of a second.
      for address in Array(repeating: 1, count: 20) + Array(repeating: 2, count: millisecond % 20 == 0 ? 6 : 0) {
        guard !queue.refuses(UInt128(address), at: now, limits: Self.limits) else {
          refused[address, default: 0] += 1
          continue
        }
        queue.add(0, of: UInt128(address), at: now)
      }
      _ = queue.next(at: now, limits: Self.limits)
    }
    #expect(refused[1, default: 0] > 2000)
    #expect(refused[2] == 0)
  }

  @Test("a pause of the process is no overload")
  func pause() {
    var queue = TurnQueue<Int>()
    for _ in 0..<100 { queue.add(0, of: 1, at: start) }
    for _ in 0..<3 { _ = queue.next(at: start, limits: Self.limits) }
    let now = start.advanced(by: .milliseconds(240))
    let isFull = queue.refuses(1, at: now, limits: Self.limits)
    #expect(!isFull)
  }

  @Test("a burst that arrives at once and takes less than its length is served whole")
  func burst() throws {
    var queue = TurnQueue<Int>()
    for number in 0..<990 { queue.add(number, of: UInt128(number % 10), at: start) }
    for millisecond in 0..<990 {
      let now = start.advanced(by: .milliseconds(millisecond))
      let isFull = queue.refuses(1, at: now, limits: Self.limits)
      let next = queue.next(at: now, limits: Self.limits)
      #expect(!isFull && next?.isTimely == true)
    }
    #expect(queue.isEmpty)
  }

  @Test("too many lines are a standing queue as well, even with one connection each")
  func lines() {
    var queue = TurnQueue<Int>()
    var verdicts: [Bool] = []
    for hundredth in 0..<400 {
      let now = start.advanced(by: .milliseconds(10 * hundredth))
      for number in 0..<3 { queue.add(number, of: UInt128(hundredth * 3 + number), at: now) }
      if let next = queue.next(at: now, limits: Self.limits) { verdicts.append(next.isTimely) }
    }
    #expect(verdicts.prefix(10).allSatisfy { $0 })
    #expect(verdicts.suffix(100).filter { !$0 }.count >= 50)
  }

  @Test("a flood of costly handshakes delays a request by none of them, and leaves half of the time to many requests")
  func kinds() throws {
    var work = ExpensiveWork<Int>()
    var now = start
    var time: [ExpensiveWork<Int>.Kind: Duration] = [.handshake: .zero, .request: .zero]
    func add(_ kind: ExpensiveWork<Int>.Kind, of address: Int) {
      work[kind].add(address, of: UInt128(address), at: now)
    }
    func serve() throws -> ExpensiveWork<Int>.Kind {
      let next = work.next(at: now, limits: Self.limits)
      let turn = try #require(next)
      #expect(turn.isTimely || turn.kind == .handshake)
      let cost = turn.kind == .handshake ? Duration.milliseconds(5) : .microseconds(400)
      now = now.advanced(by: cost)
      work.charge(cost, to: turn.kind)
      time[turn.kind, default: .zero] += cost
      // 200 addresses have each a handshake waiting at all times.
      if turn.kind == .handshake { add(.handshake, of: turn.element) }
      return turn.kind
    }
    for address in 1...200 { add(.handshake, of: address) }
    for number in 0..<2000 {
      if number % 20 == 0 {
        add(.request, of: 1)
        #expect(try serve() == .request)
      } else {
        #expect(try serve() == .handshake)
      }
    }
    time = [:]
    add(.request, of: 1)
    for _ in 0..<2000 where try serve() == .request { add(.request, of: 1) }
    let lead = time[.handshake, default: .zero] - time[.request, default: .zero]
    #expect(lead >= .milliseconds(-5) && lead <= .milliseconds(5))
  }
}
