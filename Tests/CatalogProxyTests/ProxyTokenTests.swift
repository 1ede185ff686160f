import Locks
import TestSupport
import Testing

@testable import CatalogProxy
@testable import UpstreamAdmission

@Suite("The developer token for the upstream")
struct ProxyTokenTests {
  /// Counts the tokens that it mints. Each mint takes until every other thread needs the token as well.
  private final class Source: TokenSource {
    private let made = Locked(0)
    private let asking = Locked(0)
    /// How many threads must have asked before the token is made.
    let needed = Locked(0)

    func threadAsks() { asking.withLock { $0 += 1 } }

    var count: Int { made.withLock { $0 } }

    func mint(now: Int) throws -> ProxyToken {
      let number = made.withLock { made in
        made += 1
        return made
      }
      wait(for: "all threads ask for the token") { asking.withLock { $0 } >= needed.withLock { $0 } }
      return ProxyToken(text: "token-\(number)", refreshAt: .max, expiresAt: .max)
    }
  }

  private struct Silence: CatalogObserver {
    func noticed(_ notice: CatalogNotice) {}
  }

  private let source = Source()
  private let proxy: CatalogGateway

  init() {
    proxy = CatalogGateway(.init(upstream: "http://localhost", nextHop: "localhost"), observer: Silence())
    proxy.use(source)
  }

  @Test("is minted once at the start and once after each 401, however many threads need the token")
  func once() throws {
    for round in 1...10 {
      source.needed.withLock { $0 = 8 * round }
      let texts = try Threads.run(8) { _ in
        source.threadAsks()
        return proxy.currentToken()?.text
      }
      #expect(texts == Array(repeating: "token-\(round)", count: 8))
      #expect(source.count == round)
      let now = TokenRefreshPolicy.interval * round
      _ = proxy.withAdmission { state in
        state.tokenRefresh.unauthorized(state.tokenRefresh.current, isRetry: false, now: now)
      }
    }
  }

  /// Mints one token, and then fails.
  private final class FailingSource: TokenSource {
    private let isFirst = Locked(true)

    func mint(now: Int) throws -> ProxyToken {
      guard
        isFirst.withLock({ first in
          defer { first = false }; return first
        })
      else { throw CancellationError() }
      return ProxyToken(text: "token", refreshAt: now + 1800, expiresAt: now + 3600)
    }
  }

  @Test("is sent until it expires if there is no other, and not after that")
  func expired() {
    let time = ManualTime()
    let proxy = CatalogGateway(
      .init(upstream: "http://localhost", nextHop: "localhost"), observer: Silence(), clock: time.clock)
    proxy.use(FailingSource())
    #expect(proxy.currentToken() != nil)
    time.advance(by: .seconds(3599))
    #expect(proxy.currentToken() != nil)
    time.advance(by: .seconds(1))
    #expect(proxy.currentToken() == nil)
  }

  @Test("changes when the key changes")
  func otherKey() {
    #expect(proxy.currentToken()?.text == "token-1")
    #expect(proxy.currentToken()?.text == "token-1")
    proxy.use(source)
    #expect(proxy.currentToken()?.text == "token-2")
  }
}
