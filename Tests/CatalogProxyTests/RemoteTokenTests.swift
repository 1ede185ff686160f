import Dispatch
import HTTPCache
import Locks
import TestSupport
import Testing

@testable import CatalogProxy
@testable import UpstreamAdmission

@Suite("The token of a remote signer for the upstream")
struct RemoteTokenTests {
  /// Signs when the test lets it.
  private final class Source: TokenSource {
    let isRemote = true
    let isOpen = Locked(true)
    let fails = Locked(false)
    private let made = Locked(0)

    var count: Int { made.withLock { $0 } }

    func mint(now: Int) throws -> ProxyToken {
      let number = made.withLock { made in
        made += 1
        return made
      }
      wait(for: "the signer goes on") { isOpen.withLock { $0 } }
      if fails.withLock({ $0 }) { throw TestFailure("The signer is down.") }
      return ProxyToken(text: "token-\(number)", refreshAt: .max, renewAt: 0, expiresAt: .max)
    }
  }

  private struct Silence: CatalogObserver {
    func noticed(_ notice: CatalogNotice) {}
  }

  private let source = Source()
  private let proxy = CatalogGateway(.init(upstream: "http://localhost", nextHop: "localhost"), observer: Silence())

  init() { proxy.use(source) }

  private func unauthorized() {
    _ = proxy.withAdmission { $0.tokenRefresh.unauthorized($0.tokenRefresh.current, isRetry: false, now: .zero) }
  }

  @Test("is signed once for all that wait, and the thread of a loop never waits")
  func once() async throws {
    source.isOpen.withLock { $0 = false }
    #expect(proxy.currentToken() == nil && source.count == 0)
    let waiting = (0..<4).map { _ in Task { await proxy.remoteToken()?.text } }
    try await until("the signer is asked") { source.count == 1 }
    source.isOpen.withLock { $0 = true }
    for task in waiting { #expect(await task.value == "token-1") }
    #expect(proxy.currentToken()?.text == "token-1" && source.count == 1)
  }

  @Test("stays in use while the next one is signed, and if that fails")
  func renewal() async throws {
    #expect(await proxy.remoteToken()?.text == "token-1")
    source.isOpen.withLock { $0 = false }
    proxy.renewRemoteToken()
    try await until("the signer is asked") { source.count == 2 }
    #expect(proxy.currentToken()?.text == "token-1")
    source.isOpen.withLock { $0 = true }
    try await until("the next token is there") { proxy.currentToken()?.text == "token-2" }
    source.fails.withLock { $0 = true }
    proxy.renewRemoteToken()
    try await until("the signer is asked again") { source.count == 3 }
    #expect(proxy.currentToken()?.text == "token-2")
  }

  @Test("is another one after a 401, or the last one if the signer is down")
  func refused() async throws {
    #expect(await proxy.remoteToken()?.text == "token-1")
    unauthorized()
    #expect(await proxy.remoteToken()?.text == "token-2")
    source.fails.withLock { $0 = true }
    proxy.withAdmission { _ = $0.tokenRefresh.renewed(isUnjudged: true) }
    #expect(await proxy.remoteToken()?.text == "token-2")
    // No further request waits.
    let count = source.count
    #expect(await proxy.remoteToken()?.text == "token-2" && source.count == count)
  }
}
