import HTTPTypes
import TestSupport
import Testing

@testable import UpstreamAdmission

@Suite("The circuit of an upstream and its resources")
struct UpstreamCircuitTests {
  private func subject(_ client: UInt64, _ resource: UInt64, caller: UInt64? = nil) -> CircuitSubject {
    CircuitSubject(client: client, caller: caller ?? client, resource: resource)
  }

  /// Sends a request if the circuit admits it, and records its outcome immediately. Returns whether it was sent.
  @discardableResult
  private func ask(
    _ circuit: inout UpstreamCircuit, _ subject: CircuitSubject, _ outcome: CircuitOutcome, at milliseconds: Int
  ) -> Bool {
    let now = Duration.milliseconds(milliseconds)
    guard case .pass(let pass) = circuit.admit(subject, now: now) else { return false }
    circuit.record(outcome, of: pass, now: now)
    return true
  }

  @Test(
    "failures of one client never affect another client, whatever their kind and number of resources",
    arguments: [CircuitOutcome.resourceFailure, .failure, .broken], [1, 4, 1000])
  func otherClient(_ outcome: CircuitOutcome, _ resources: Int) {
    var circuit = UpstreamCircuit()
    for step in 0..<2000 {
      let time = 50 * step
      ask(&circuit, subject(1, UInt64(step % resources)), outcome, at: time)
      guard step.isMultiple(of: 10) else { continue }
      #expect(ask(&circuit, subject(2, 5000 + UInt64(step % 7)), .success, at: time + 1), "at \(time) ms")
    }
    #expect(circuit.isClosed)
  }

  @Test("a resource with five consecutive failures is refused alone, and recovers with a probe")
  func resource() {
    var circuit = UpstreamCircuit()
    for _ in 0..<5 { #expect(ask(&circuit, subject(1, 1), .resourceFailure, at: 0)) }
    #expect(circuit.refusal(for: subject(2, 1), now: .zero)?.isOfResource == true)
    #expect(circuit.refusal(for: subject(1, 2), now: .zero) == nil)
    #expect(circuit.isClosed)
    #expect(!ask(&circuit, subject(1, 1), .success, at: 499))
    #expect(ask(&circuit, subject(2, 1), .success, at: 500))
    #expect(circuit.refusal(for: subject(1, 1), now: .milliseconds(501)) == nil)
  }

  @Test("500 never opens the circuit for all, even at many resources and for many clients")
  func serverErrors() {
    var circuit = UpstreamCircuit()
    for step in 0..<1000 {
      #expect(ask(&circuit, subject(UInt64(step % 9), UInt64(step)), .resourceFailure, at: step))
    }
    #expect(circuit.isClosed)
  }

  @Test("failures of two clients at two resources open the circuit, and each other client may still send one request")
  func clients() {
    var circuit = UpstreamCircuit()
    ask(&circuit, subject(9, 9), .success, at: 0)
    for step in 0..<5 { ask(&circuit, subject(UInt64(step % 2), UInt64(step % 2)), .failure, at: step) }
    #expect(!circuit.isClosed)
    #expect(ask(&circuit, subject(3, 3), .failure, at: 5))
    #expect(circuit.refusal(for: subject(3, 4), now: .milliseconds(6))?.isOfResource == false)
    #expect(circuit.refusal(for: subject(4, 4), now: .milliseconds(6)) == nil)
  }

  @Test(
    "failing clients take no request of a client whose requests all succeed, and its successes keep the circuit closed",
    arguments: [2, 3, 8] as [UInt64], [100, 900, 5_000, 25_000])
  func servedClient(failing: UInt64, interval: Int) {
    var circuit = UpstreamCircuit()
    var refused = 0
    var asked = 0
    // Clients that the circuit has stopped for a while have no failures any more, and may open it again.
    let isOften = interval <= 5000
    var openings = 0
    for time in stride(from: 0, to: 120_000, by: 10) {
      // It is served well before the others begin to fail.
      if time >= 1000 { ask(&circuit, subject(UInt64(time / 10) % failing, UInt64(time)), .failure, at: time) }
      if isOften, time > 1000 + 2 * interval, !circuit.isClosed { openings += 1 }
      guard time.isMultiple(of: interval) else { continue }
      // A page sends its requests together.
      let now = Duration.milliseconds(time + 1)
      let admissions = (0..<8 as Range<UInt64>).map { circuit.admit(subject(100, 1_000_000 + $0), now: now) }
      asked += admissions.count
      for admission in admissions {
        if case .pass(let pass) = admission { circuit.record(.success, of: pass, now: now) } else { refused += 1 }
      }
    }
    #expect(refused == 0 && openings == 0, "\(refused) of \(asked), \(openings)")
  }

  @Test(
    "an outage for all opens the circuit at once, also after some clients have failed alone",
    arguments: [1, 3, 20] as [UInt64])
  func suddenOutage(clients: UInt64) {
    var circuit = UpstreamCircuit()
    for time in stride(from: 0, to: 30_000, by: 20) {
      ask(&circuit, subject(UInt64(time / 20) % 2, UInt64(time)), .failure, at: time)
      ask(&circuit, subject(100 + UInt64(time / 20) % clients, UInt64(time)), .success, at: time + 1)
    }
    #expect(circuit.isClosed)
    for step in 0..<5 as Range<UInt64> {
      ask(&circuit, subject(100 + step % clients, 5000 + step), .failure, at: 30_000 + Int(step))
    }
    #expect(!circuit.isClosed)
  }

  @Test(
    "a caller that always fails does not keep the circuit open for any other caller",
    arguments: [1, 2] as [UInt64], [700, 3_000, 25_000])
  func lateCaller(_ client: UInt64, _ interval: Int) {
    var circuit = UpstreamCircuit()
    var openings = 0
    for time in stride(from: 0, to: 120_000, by: 20) {
      let wasClosed = circuit.isClosed
      ask(&circuit, subject(1, UInt64(time)), .failure, at: time)
      if wasClosed, !circuit.isClosed { openings += 1 }
      guard time >= 10_000, time.isMultiple(of: interval) else { continue }
      for resource in 0..<8 as Range<UInt64> {
        #expect(
          ask(&circuit, subject(client, 1_000_000 + resource, caller: 2), .success, at: time + 1), "at \(time) ms")
      }
      #expect(circuit.isClosed)
    }
    // The successes of the other caller keep the circuit closed while they are recent.
    #expect(interval < 10_000 ? openings == 1 : openings > 1)
  }

  @Test("the concurrent requests of a page pass while another caller keeps the circuit open")
  func page() {
    var circuit = UpstreamCircuit()
    for step in 0..<5 as Range<UInt64> { ask(&circuit, subject(1, step), .failure, at: 0) }
    #expect(!circuit.isClosed)
    for resource in 10..<26 as Range<UInt64> {
      guard case .pass = circuit.admit(subject(1, resource, caller: 2), now: .milliseconds(1)) else {
        Issue.record("Resource \(resource) was refused.")
        continue
      }
    }
  }

  @Test("an upstream that fails for all gets few requests, however many callers there are", arguments: [1, 4, 50])
  func outage(clients: Int) {
    var circuit = UpstreamCircuit()
    var sent = 0
    for time in 0..<60_000 {
      let caller = UInt64(time % 5000)
      let subject = subject(caller % UInt64(clients), UInt64(time), caller: caller)
      if ask(&circuit, subject, .failure, at: time) { sent += 1 }
    }
    #expect(!circuit.isClosed)
    // Of 60 000 requests: a few of each client in each half second, at most 32 of all clients together.
    #expect(sent <= 120 * min(clients, 32) + 200, "\(sent)")
  }

  @Test("a recent success of another caller keeps the circuit closed")
  func success() {
    var circuit = UpstreamCircuit()
    for step in 0..<5 as Range<UInt64> { ask(&circuit, subject(1, step), .failure, at: 0) }
    #expect(ask(&circuit, subject(1, 9, caller: 2), .success, at: 1))
    for step in 0..<400 { ask(&circuit, subject(1, UInt64(step)), .failure, at: 25 * step) }
    #expect(circuit.isClosed)
  }

  @Test("a request admitted by an earlier opening does not close the circuit")
  func lateOpinion() {
    var circuit = UpstreamCircuit()
    func fail(at milliseconds: Int) {
      for step in 0..<5 as Range<UInt64> { ask(&circuit, subject(1, step), .failure, at: milliseconds) }
      #expect(!circuit.isClosed)
    }
    fail(at: 0)
    guard case .pass(let late) = circuit.admit(subject(2, 12), now: .milliseconds(1)) else {
      Issue.record("refused")
      return
    }
    #expect(ask(&circuit, subject(2, 13), .success, at: 2))
    #expect(circuit.isClosed)
    fail(at: 20_000)
    circuit.record(.success, of: late, now: .milliseconds(20_001))
    #expect(!circuit.isClosed)
  }

  @Test("failures of two clients at one resource do not open the circuit for all")
  func oneResource() {
    var circuit = UpstreamCircuit()
    for step in 0..<100 { ask(&circuit, subject(UInt64(step % 2), 1), .failure, at: 100 * step) }
    #expect(circuit.isClosed)
  }

  @Test("failures at three resources open the circuit for all without a recent success of another caller")
  func resources() {
    var circuit = UpstreamCircuit()
    ask(&circuit, subject(1, 7), .success, at: 0)
    for step in 0..<5 { ask(&circuit, subject(1, UInt64(step % 3)), .failure, at: step) }
    #expect(!circuit.isClosed)

    var other = UpstreamCircuit()
    ask(&other, subject(1, 7, caller: 8), .success, at: 0)
    for step in 0..<9 { ask(&other, subject(1, UInt64(step % 3)), .failure, at: step) }
    #expect(other.isClosed, "another caller of the same client is served well")
    for step in 0..<9 { ask(&other, subject(1, UInt64(10 + step)), .failure, at: 11_000 + step) }
    #expect(!other.isClosed)
  }

  @Test("one probe closes the circuit, and a 500 neither closes it nor prevents another probe")
  func probe() {
    var circuit = UpstreamCircuit()
    for step in 0..<5 { ask(&circuit, subject(1, UInt64(step)), .failure, at: 0) }
    #expect(!ask(&circuit, subject(1, 7), .success, at: 499))
    #expect(ask(&circuit, subject(1, 7), .resourceFailure, at: 500))
    #expect(!circuit.isClosed)
    #expect(ask(&circuit, subject(1, 8), .success, at: 500))
    #expect(circuit.isClosed)
  }

  @Test("the circuit knows at most 256 failing resources, and forgets the oldest")
  func bound() {
    var resources = ResourceCircuits()
    for resource in 0..<1000 as Range<UInt64> {
      for step in 0..<5 {
        let now = Duration.milliseconds(Int(resource) + step)
        resources.record(.failure, at: resource, of: resources.admit(resource, now: now), began: now, now: now)
      }
    }
    #expect(resources.count == ResourceCircuits.most)
    #expect(resources.refusal(for: 743, now: .seconds(1)) == nil)
    #expect(resources.refusal(for: 999, now: .seconds(1)) != nil)
    for resource in 0..<1000 as Range<UInt64> {
      let pass = resources.admit(resource, now: .seconds(60))
      resources.record(.success, at: resource, of: pass, began: .seconds(60), now: .seconds(60))
    }
    #expect(resources.count == 0)
  }

  @Test(
    "the circuit admits requests to a healthy upstream, whatever a single client does",
    arguments: 1...20 as ClosedRange<UInt64>)
  func random(seed: UInt64) {
    var random = SplitMix(seed: seed)
    var circuit = UpstreamCircuit()
    var time = 0
    var refused = 0
    ask(&circuit, subject(2, 1), .success, at: 0)
    for _ in 0..<5000 {
      time += .random(in: 0..<40, using: &random)
      if Int.random(in: 0..<4, using: &random) == 0 {
        let resource = UInt64.random(in: 100..<120, using: &random)
        if !ask(&circuit, subject(.random(in: 2...4, using: &random), resource), .success, at: time) { refused += 1 }
      } else {
        let outcome: CircuitOutcome = [.failure, .broken, .resourceFailure].randomElement(using: &random) ?? .failure
        ask(&circuit, subject(1, .random(in: 0..<50, using: &random)), outcome, at: time)
      }
    }
    #expect(refused == 0, "seed \(seed)")
  }
}

@Suite("The circuits of several replicas")
struct GroupCircuitTests {
  private static let subject = CircuitSubject(client: 1, caller: 1, resource: 1)

  private func probe(_ circuit: inout UpstreamCircuit, _ outcome: CircuitOutcome, at time: Duration) -> Bool {
    guard case .pass(let pass) = circuit.admit(Self.subject, now: time) else { return false }
    circuit.record(outcome, of: pass, now: time + .milliseconds(10))
    return true
  }

  private func openCircuit() -> UpstreamCircuit {
    var circuit = UpstreamCircuit()
    circuit.use(replicas: 3)
    tellBoth(&circuit, at: .seconds(10))
    return circuit
  }

  private func tellBoth(_ circuit: inout UpstreamCircuit, at time: Duration) {
    for replica in UInt64(1)...2 { circuit.learn(.open(pause: .milliseconds(500)), of: replica, spread: 1, now: time) }
  }

  @Test("do not open because of a single replica, however often it says so")
  func single() {
    for replicas in [2, 3, 10] {
      var circuit = UpstreamCircuit()
      circuit.use(replicas: replicas)
      for second in 10..<20 { circuit.learn(.open(pause: .seconds(1)), of: 1, spread: 0, now: .seconds(second)) }
      circuit.learn(.open(pause: .seconds(1)), of: 2, spread: 0, now: .seconds(40))
      #expect(circuit.isClosed)
    }
  }

  @Test("open only with half of the others")
  func half() {
    var circuit = UpstreamCircuit()
    circuit.use(replicas: 9)
    for replica in UInt64(1)...3 { circuit.learn(.open(pause: .seconds(1)), of: replica, spread: 0, now: .seconds(10)) }
    #expect(circuit.isClosed)
    circuit.learn(.open(pause: .seconds(1)), of: 4, spread: 0, now: .seconds(10))
    #expect(!circuit.isClosed)
  }

  @Test("open and close with those of the other replicas")
  func together() {
    var circuit = openCircuit()
    #expect(!circuit.isClosed && circuit.upstream.isLearned)
    circuit.learn(.closed, of: 1, spread: 0, now: .seconds(11))
    #expect(circuit.isClosed)
  }

  @Test("stay closed if Apple has just responded")
  func contradiction() {
    var circuit = UpstreamCircuit()
    #expect(probe(&circuit, .success, at: .seconds(10)))
    tellBoth(&circuit, at: .seconds(10.5))
    #expect(circuit.isClosed)
    tellBoth(&circuit, at: .seconds(12))
    #expect(!circuit.isClosed)
  }

  @Test("are not held open by replicas that have lost their way to Apple")
  func lostWay() {
    var circuit = openCircuit()
    // The other one's probes fail again and again.
    var time = Duration.seconds(10)
    while time < .seconds(13) {
      time += .milliseconds(100)
      tellBoth(&circuit, at: time)
    }
    #expect(probe(&circuit, .success, at: time))
    #expect(circuit.isClosed)
    tellBoth(&circuit, at: time + .seconds(50))
    #expect(circuit.isClosed)
    tellBoth(&circuit, at: time + .seconds(70))
    #expect(!circuit.isClosed)
  }

  @Test("probe by themselves after their pause, whatever the others say meanwhile")
  func noExtension() {
    var breaker = CircuitBreaker()
    breaker.learn(pause: .seconds(1), now: .seconds(10))
    breaker.learn(pause: .seconds(1), now: .milliseconds(10_900))
    #expect(breaker.refusal(now: .milliseconds(10_990)) != nil)
    #expect(breaker.refusal(now: .seconds(11)) == nil)
  }

  @Test("that opened by own failures probe at once when Apple responds to another replica")
  func recovery() {
    var circuit = UpstreamCircuit()
    for number in 0..<40 {
      let subject = CircuitSubject(client: UInt64(number), caller: UInt64(number), resource: UInt64(number))
      guard case .pass(let pass) = circuit.admit(subject, now: .seconds(10)) else { continue }
      circuit.record(.failure, of: pass, now: .seconds(10))
    }
    #expect(!circuit.isClosed && !circuit.upstream.isLearned)
    circuit.learn(.closed, of: 1, spread: 0, now: .milliseconds(10_100))
    #expect(!circuit.isClosed)
    #expect(probe(&circuit, .success, at: .milliseconds(10_101)))
    #expect(circuit.isClosed)
  }
}
