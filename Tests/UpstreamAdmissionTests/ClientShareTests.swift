import TestSupport
import Testing

@testable import UpstreamAdmission

@Suite struct ClientShareTests {
  @Test("a client with a thousand devices and a client with one address are served equally")
  func clientsAlike() {
    var gate = Turnstile()
    var served = ["app": 0, "backend": 0]
    var owner: [Int: String] = [:]
    for device in 0..<1000 { owner[gate.ask("\(device)", of: "app").number] = "app" }
    for _ in 0..<1000 { owner[gate.ask("10.0.0.1", of: "backend").number] = "backend" }
    for _ in 0..<500 { for number in gate.end() { served[owner[number] ?? "", default: 0] += 1 } }
    #expect(served.values.allSatisfy { (249...251).contains($0) }, "\(served)")
  }

  @Test("a greedy device and other devices of one client are served equally beside another client's load")
  func devicesAlike() {
    var gate = Turnstile()
    var served: [Int: Int] = [:]
    var owner: [Int: Int] = [:]
    for _ in 0..<1000 { gate.ask("10.0.0.1", of: "backend") }
    for _ in 0..<1000 { owner[gate.ask("greedy", of: "app").number] = 0 }
    for device in 1...4 { for _ in 0..<100 { owner[gate.ask("\(device)", of: "app").number] = device } }
    for _ in 0..<500 { for number in gate.end() { if let device = owner[number] { served[device, default: 0] += 1 } } }
    #expect(served.count == 5 && served.values.allSatisfy { (48...52).contains($0) }, "\(served)")
  }

  @Test("a client's request is sent immediately, however many devices another client has")
  func reserve() {
    var gate = Turnstile()
    for device in 0..<100 { gate.ask("\(device)", of: "app") }
    #expect(gate.limit.inFlight == 7)
    #expect(gate.ask("10.0.0.1", of: "backend").goes)
    for _ in 0..<7 { #expect(gate.end().count == 1) }
    #expect(gate.end().isEmpty && gate.limit.inFlight == 7, "the backend's place stays free")
  }

  @Test("a device's request is sent immediately, however much another device of the client requests")
  func deviceReserve() {
    var gate = Turnstile()
    for _ in 0..<100 { gate.ask("greedy", of: "app") }
    #expect(gate.limit.inFlight == 6)
    #expect(gate.ask("modest", of: "app").goes)
    #expect(!gate.ask("another", of: "app").goes, "the client has its share")
  }

  @Test(
    "a client never exceeds its share, even without other clients",
    arguments: [(0.5, 4), (0.25, 2), (0.01, 1)])
  func share(share: Double, most: Int) {
    var gate = Turnstile()
    for device in 0..<100 { gate.ask("\(device)", of: "partner", share: share) }
    #expect(gate.limit.inFlight == most)
    for _ in 0..<50 {
      #expect(gate.end().count == 1)
      #expect(gate.limit.inFlight == most)
    }
  }

  @Test("a client with the whole limit as its share leaves only the next turn to others")
  func everything() {
    var gate = Turnstile()
    for device in 0..<100 { gate.ask("\(device)", of: "app", share: 1) }
    #expect(gate.limit.inFlight == 8)
    let backend = gate.ask("10.0.0.1", of: "backend").number
    #expect(gate.end() == [backend])
  }

  @Test("a changed share applies from the next request")
  func reload() {
    var gate = Turnstile()
    for device in 0..<100 { gate.ask("\(device)", of: "partner", share: 0.25) }
    #expect(gate.ask("another", of: "partner", share: 0.5).goes)
    #expect(gate.end().count == 2 && gate.limit.inFlight == 4)
    gate.ask("another", of: "partner", share: 0.125)
    for _ in 0..<3 { #expect(gate.end().isEmpty) }
    #expect(gate.end().count == 1 && gate.limit.inFlight == 1)
  }

  @Test("the devices of a client fill seven eighths of the waiting room, and another client still has room")
  func room() {
    var gate = Turnstile(initial: 200, maximum: 200)
    for device in 0..<20_000 { gate.ask("\(device)", of: "app") }
    #expect(gate.limit.inFlight == 175 && gate.limit.waiting == 14_336)
    let refused = gate.refused
    for _ in 0..<1000 { gate.ask("10.0.0.1", of: "backend") }
    #expect(gate.refused == refused)
  }

  @Test("the callers of the only client may fill the whole waiting room")
  func onlyClient() {
    var gate = Turnstile(initial: 200, maximum: 200)
    for caller in 0..<20_000 { gate.ask("\(caller)") }
    #expect(gate.limit.inFlight == 200 && gate.limit.waiting == 16_384)
  }

  @Test("after any events, a request waits only if its caller, its client or the limit is exhausted", arguments: 1...20)
  func anything(seed: UInt64) {
    var random = SplitMix(seed: seed)
    let shares: [Double] = (0..<5).map { _ in [0.01, 0.2, 0.5, 0.875, 1.0].randomElement(using: &random) ?? 1 }
    var gate = Turnstile(initial: 12, maximum: 12, waiting: 200)
    for _ in 0..<3000 {
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<5:
        let client = Int.random(in: 0..<5, using: &random)
        gate.ask("\(Int.random(in: 0..<4, using: &random))", of: "\(client)", share: shares[client])
      case 5..<9: gate.end()
      default:
        guard let (number, ticket) = gate.tickets.randomElement(using: &random) else { continue }
        #expect(gate.cancel(ticket) == number)
      }
      Self.expectConsistent(gate.limit)
    }
    while gate.limit.inFlight > 0 { gate.end() }
    #expect(gate.tickets.isEmpty && gate.limit.waiting == 0)
    #expect(gate.limit.known.isEmpty && gate.limit.clients.allSatisfy { $0.isIdle(now: 0) } && gate.limit.order.isEmpty)
    #expect(gate.limit.callerTurns.count == 0 && gate.limit.clientTurns.count == 0)
  }

  private static func expectConsistent(_ limit: ConcurrencyLimit<Int>) {
    #expect(limit.clients.reduce(0) { $0 + $1.inFlight } == limit.inFlight)
    #expect(limit.clients.reduce(0) { $0 + $1.waiting } == limit.waiting)
    for client in limit.clients {
      #expect(client.inFlight <= limit.adaptive.most(of: client.share))
    }
    for (name, caller) in limit.known {
      guard let client = limit.clients.first(where: { $0.name == name.client }) else {
        Issue.record("a caller without a client")
        continue
      }
      let most = AdaptiveLimit.lessAnEighth(of: limit.adaptive.most(of: client.share))
      #expect(caller.inFlight <= most)
      let isHeldBack = caller.inFlight == most || !limit.mayGo(client) || limit.inFlight == limit.limit
      #expect(caller.queue.isEmpty || isHeldBack, "\(name)")
    }
  }
}
