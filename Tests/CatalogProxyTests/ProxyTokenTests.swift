import Dispatch
import HTTPCache
import Locks
import TestSupport
import Testing

@testable import CatalogProxy
@testable import UpstreamAdmission

@Suite("The developer token for the upstream")
struct ProxyTokenTests {
  /// Numbers its tokens, and signs when the test lets it.
  private final class Source: TokenSource {
    private let name: String
    let isOpen = Locked(true)
    let fails = Locked(false)
    private let made = Locked(0)

    init(_ name: String = "token") { self.name = name }

    /// How often a token was to be signed.
    var count: Int { made.withLock { $0 } }

    func mint(now: Int) throws -> ProxyToken {
      let number = made.withLock { made in
        made += 1
        return made
      }
      wait(for: "the signer goes on") { isOpen.withLock { $0 } }
      if fails.withLock({ $0 }) { throw TestFailure("The signer is down.") }
      return ProxyToken(
        text: "\(name)-\(number)", renewAt: now + 1800, refreshAt: now + 3300, expiresAt: now + 3600)
    }
  }

  private struct Silence: CatalogObserver {
    func noticed(_ notice: CatalogNotice) {}
  }

  private let source = Source()
  private let time = ManualTime()
  private let proxy: CatalogGateway

  init() {
    proxy = CatalogGateway(
      .init(upstream: "http://localhost", nextHop: "localhost"), observer: Silence(), clock: time.clock)
    proxy.use(source)
  }

  private func unauthorized() {
    let now = time.clock.elapsed
    _ = proxy.withAdmission { $0.tokenRefresh.unauthorized($0.tokenRefresh.current, isRetry: false, now: now) }
  }

  @Test("is signed once for all that wait, at the start and after each 401")
  func once() async throws {
    for round in 1...10 {
      source.isOpen.withLock { $0 = false }
      let waiting = (0..<8).map { _ in Task { await proxy.token()?.text } }
      try await until("the signer is asked") { source.count == round }
      source.isOpen.withLock { $0 = true }
      for task in waiting { #expect(await task.value == "token-\(round)") }
      #expect(source.count == round)
      time.advance(by: TokenRefreshPolicy.interval)
      unauthorized()
    }
  }

  @Test("stays in use while the next one is signed, and if that fails")
  func renewal() async throws {
    #expect(await proxy.token()?.text == "token-1")
    proxy.renewToken()
    time.advance(by: .seconds(1800))
    source.isOpen.withLock { $0 = false }
    proxy.renewToken()
    try await until("the signer is asked") { source.count == 2 }
    #expect(await proxy.token()?.text == "token-1")
    source.isOpen.withLock { $0 = true }
    try await until("the next token is there") { proxy.withAdmission { $0.token?.text } == "token-2" }
    #expect(await proxy.token()?.text == "token-2")
    source.fails.withLock { $0 = true }
    time.advance(by: .seconds(1800))
    proxy.renewToken()
    try await until("the signer is asked again") { source.count == 3 }
    #expect(await proxy.token()?.text == "token-2")
  }

  @Test("is another one after a 401, or the last one if the signer is down")
  func refused() async {
    #expect(await proxy.token()?.text == "token-1")
    unauthorized()
    #expect(await proxy.token()?.text == "token-2")
    source.fails.withLock { $0 = true }
    proxy.withAdmission { _ = $0.tokenRefresh.renewed(isUnjudged: true) }
    #expect(await proxy.token()?.text == "token-2")
    // No further request waits.
    let count = source.count
    #expect(await proxy.token()?.text == "token-2" && source.count == count)
  }

  @Test("is sent until it expires if there is no other, and not after that")
  func expired() async {
    #expect(await proxy.token() != nil)
    source.fails.withLock { $0 = true }
    time.advance(by: .seconds(3599))
    #expect(await proxy.token() != nil)
    time.advance(by: .seconds(1))
    #expect(await proxy.token() == nil)
  }

  @Test("is the new key's as soon as the key changes, although the last one's signer does not reply")
  func otherKey() async throws {
    source.isOpen.withLock { $0 = false }
    let waiting = (0..<2).map { _ in Task { await proxy.token()?.text } }
    try await until("the signer is asked") { source.count == 1 }
    proxy.use(Source("other"))
    #expect(await proxy.token()?.text == "other-1")
    source.isOpen.withLock { $0 = true }
    for task in waiting { #expect(await task.value == "other-1") }
    #expect(source.count == 1)
  }

  @Test("is signed once by the new key, although requests wait for it that waited for the last key")
  func onceByOtherKey() async throws {
    let other = Source("other")
    source.isOpen.withLock { $0 = false }
    other.isOpen.withLock { $0 = false }
    let waiting = (0..<2).map { _ in Task { await proxy.token()?.text } }
    try await until("the signer is asked") { source.count == 1 }
    let queue = try #require(proxy.withAdmission { $0.tokenMint?.queue })
    proxy.use(other)
    proxy.renewToken()
    try await until("the other signer is asked") { other.count == 1 }
    source.isOpen.withLock { $0 = true }
    // All that waited for the last key has had its turn.
    await withCheckedContinuation { continuation in queue.async { continuation.resume() } }
    other.isOpen.withLock { $0 = true }
    for task in waiting { #expect(await task.value == "other-1") }
    #expect(source.count == 1 && other.count == 1)
    #expect(proxy.status.counts.tokensMinted == 1)
  }

  /// A loop: one thread, on which all its jobs run.
  private final class Loop: TaskExecutor {
    private let queue = DispatchQueue(label: "loop")

    func enqueue(_ job: consuming ExecutorJob) {
      let job = UnownedJob(job)
      queue.async { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
  }

  @Test("is signed while the thread of the loop goes on")
  func loopGoesOn() async throws {
    let loop = Loop()
    source.isOpen.withLock { $0 = false }
    let waiting = Task(executorPreference: loop) { await proxy.token()?.text }
    try await until("the signer is asked") { source.count == 1 }
    await Task(executorPreference: loop) {}.value
    source.isOpen.withLock { $0 = true }
    #expect(await waiting.value == "token-1")
  }
}
