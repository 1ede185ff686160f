import Testing

@testable import UpstreamAdmission

@Suite("A key rotation") struct KeyRotationTests {
  private static let noon = 1_795_000_000

  @Test("promotes the next key after an accepted proof, and only once")
  func promotion() {
    var rotation = KeyRotation(now: .zero)
    #expect(rotation.step(now: .zero, wall: Self.noon) == .prove)
    #expect(rotation.step(now: .seconds(5), wall: Self.noon + 5) == .wait, "one proof at a time")
    #expect(rotation.proved(.accepted, now: .seconds(6), wall: Self.noon + 6) == .accepted)
    #expect(rotation.state == .proved && rotation.lastProof == Self.noon + 6)
    #expect(rotation.step(now: .seconds(6), wall: Self.noon + 6) == .promote)
    #expect(rotation.state == .signing)
    #expect(rotation.step(now: .seconds(7), wall: Self.noon + 7) == .wait)
  }

  @Test("never promotes a refused key, and proves it again after growing pauses of at most an hour")
  func refusal() {
    var rotation = KeyRotation(now: .zero)
    var now = Duration.zero
    var pauses: [Duration] = []
    for _ in 0..<12 {
      #expect(rotation.step(now: now, wall: Self.noon) == .prove)
      guard case .refused(let pause) = rotation.proved(.refused, now: now, wall: Self.noon) else {
        Issue.record("it is not refused")
        return
      }
      pauses.append(pause)
      #expect(rotation.step(now: now + pause - .nanoseconds(1), wall: Self.noon) == .wait)
      now += pause
    }
    #expect(pauses.prefix(4) == [.seconds(10), .seconds(20), .seconds(40), .seconds(80)])
    #expect(pauses.last == .seconds(3600) && rotation.state == .refused)
  }

  @Test("proves a key again after no verdict, and does not call it refused")
  func noVerdict() {
    var rotation = KeyRotation(now: .zero)
    #expect(rotation.step(now: .zero, wall: Self.noon) == .prove)
    #expect(rotation.proved(.unknown, now: .zero, wall: Self.noon) == .undecided(pause: .seconds(10)))
    #expect(rotation.state == .unproved)
    #expect(rotation.step(now: .seconds(10), wall: Self.noon) == .prove)
  }

  @Test("waits for notBefore, and repeats a proof that is older than an hour by then")
  func notBefore() {
    var rotation = KeyRotation(notBefore: Self.noon + 7200, now: .zero)
    #expect(rotation.step(now: .zero, wall: Self.noon) == .prove)
    _ = rotation.proved(.accepted, now: .zero, wall: Self.noon)
    #expect(rotation.step(now: .seconds(7199), wall: Self.noon + 7199) == .wait)
    #expect(rotation.step(now: .seconds(7200), wall: Self.noon + 7200) == .prove)
    _ = rotation.proved(.accepted, now: .seconds(7200), wall: Self.noon + 7200)
    #expect(rotation.step(now: .seconds(7200), wall: Self.noon + 7200) == .promote)
  }

  @Test("repeats a proof from the future, after the clock was set back")
  func clock() {
    var rotation = KeyRotation(notBefore: Self.noon, now: .zero)
    #expect(rotation.step(now: .zero, wall: Self.noon + 9000) == .prove)
    _ = rotation.proved(.accepted, now: .zero, wall: Self.noon + 9000)
    #expect(rotation.step(now: .seconds(1), wall: Self.noon + 100) == .prove)
  }

  @Test("falls back when the promoted key is suspected and refused, and promotes it again after an accepted proof")
  func fallback() {
    var rotation = KeyRotation(now: .zero)
    rotation.suspect(now: .zero)
    #expect(rotation.step(now: .zero, wall: Self.noon) == .prove)
    _ = rotation.proved(.accepted, now: .zero, wall: Self.noon)
    #expect(rotation.step(now: .zero, wall: Self.noon) == .promote)
    rotation.suspect(now: .seconds(5))
    #expect(rotation.step(now: .seconds(5), wall: Self.noon + 5) == .prove)
    #expect(rotation.proved(.unknown, now: .seconds(5), wall: Self.noon) == .undecided(pause: .seconds(10)))
    #expect(rotation.state == .signing, "an outage of Apple Music is no refusal")
    rotation.suspect(now: .seconds(6))
    #expect(rotation.step(now: .seconds(6), wall: Self.noon) == .wait, "a suspicion shortens no pause")
    #expect(rotation.step(now: .seconds(15), wall: Self.noon) == .prove)
    #expect(rotation.proved(.refused, now: .seconds(15), wall: Self.noon) == .fellBack(pause: .seconds(20)))
    #expect(rotation.state == .refused)
    #expect(rotation.step(now: .seconds(35), wall: Self.noon + 35) == .prove)
    _ = rotation.proved(.accepted, now: .seconds(35), wall: Self.noon + 35)
    #expect(rotation.step(now: .seconds(35), wall: Self.noon + 35) == .promote)
  }

  @Test("proves the key that signs at most once a minute while its proofs are accepted")
  func persistentSuspicion() {
    var rotation = KeyRotation(now: .zero)
    _ = rotation.step(now: .zero, wall: Self.noon)
    _ = rotation.proved(.accepted, now: .zero, wall: Self.noon)
    #expect(rotation.step(now: .zero, wall: Self.noon) == .promote)
    var proofs = 0
    for second in stride(from: 5, to: 605, by: 5) {
      let now = Duration.seconds(second)
      rotation.suspect(now: now)
      guard rotation.step(now: now, wall: Self.noon + second) == .prove else { continue }
      proofs += 1
      #expect(rotation.proved(.accepted, now: now, wall: Self.noon + second) == .confirmed)
    }
    #expect(proofs == 10 && rotation.state == .signing)
  }

  @Test("makes no pause longer because of reloads, and continues with the same pause after one")
  func reloadsLeavePauses() {
    var rotation = KeyRotation(now: .zero)
    var now = Duration.zero
    for pause in [10, 20, 40] {
      #expect(rotation.step(now: now, wall: Self.noon) == .prove)
      #expect(rotation.proved(.refused, now: now, wall: Self.noon) == .refused(pause: .seconds(pause)))
      now += .seconds(pause)
    }
    for _ in 0..<5 {
      now -= .seconds(30)
      rotation.reloaded(notBefore: nil, now: now)
      #expect(rotation.step(now: now, wall: Self.noon) == .prove)
      rotation.reloaded(notBefore: nil, now: now)
      #expect(rotation.proved(.refused, now: now, wall: Self.noon) == .refused(pause: .seconds(40)))
      now += .seconds(40)
    }
    #expect(rotation.step(now: now, wall: Self.noon) == .prove)
    #expect(rotation.proved(.unknown, now: now, wall: Self.noon) == .undecided(pause: .seconds(80)))
  }

  @Test("proves a refused key at once after a reload, and keeps a promoted one")
  func reload() {
    var rotation = KeyRotation(now: .zero)
    _ = rotation.step(now: .zero, wall: Self.noon)
    _ = rotation.proved(.refused, now: .zero, wall: Self.noon)
    rotation.reloaded(notBefore: nil, now: .seconds(1))
    #expect(rotation.step(now: .seconds(1), wall: Self.noon) == .prove)
    _ = rotation.proved(.accepted, now: .seconds(1), wall: Self.noon)
    #expect(rotation.step(now: .seconds(1), wall: Self.noon) == .promote)
    rotation.reloaded(notBefore: Self.noon + 9000, now: .seconds(2))
    #expect(rotation.step(now: .seconds(2), wall: Self.noon) == .wait && rotation.state == .signing)
  }
}
