import Testing

@testable import Access

@Suite("The memory of valid credentials")
struct RecentCredentialsTests {
  private static let hour: UInt64 = 3_600_000_000_000

  private func bytes(_ text: String) -> ArraySlice<UInt8> { ArraySlice(text.utf8) }

  @Test("knows a credential for an hour after its last use, and no other one")
  func hour() {
    let memory = RecentCredentials()
    #expect(!memory.remembers(bytes("a.b.c"), now: 0))
    memory.remember(bytes("a.b.c"), now: 0)
    #expect(memory.remembers(bytes("a.b.c"), now: Self.hour - 1))
    #expect(!memory.remembers(bytes("a.b.d"), now: 1))
    #expect(!memory.remembers(bytes("a.b.c"), now: Self.hour + 1))
    memory.remember(bytes("a.b.c"), now: Self.hour)
    #expect(memory.remembers(bytes("a.b.c"), now: 2 * Self.hour - 1))
  }

  @Test("stays bounded, and the credentials that were not used for longest go first")
  func bounded() {
    let memory = RecentCredentials(maximum: 128)
    for number in 0..<10_000 { memory.remember(bytes("\(number)"), now: UInt64(number)) }
    let known = (0..<10_000).count { memory.remembers(bytes("\($0)"), now: 10_000) }
    #expect(known <= 128)
    #expect(memory.remembers(bytes("9999"), now: 10_000))
  }

  @Test("the wait of an address counts nothing")
  func wait() {
    let limiter = RateLimiter()
    for _ in 0..<1000 { #expect(limiter.failureWait(of: "192.0.2.1", now: 0) == nil) }
    for _ in 0..<100 { #expect(limiter.takeFailure(from: "192.0.2.1", now: 0) == nil) }
    #expect(limiter.failureWait(of: "192.0.2.1", now: 0) == 1)
    #expect(limiter.failureWait(of: "192.0.2.2", now: 0) == nil)
    #expect(limiter.failureWait(of: "192.0.2.1", now: 1_000_000_000) == nil)
    #expect(limiter.takeFailure(from: "192.0.2.1", now: 1_000_000_000) == nil)
    #expect(limiter.failureWait(of: "192.0.2.1", now: 1_000_000_000) == 1)
  }
}
