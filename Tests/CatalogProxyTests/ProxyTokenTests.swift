import Dispatch
import Glibc
import Locks
import Testing

@testable import CatalogProxy
@testable import UpstreamAdmission

@Suite("The developer token for the upstream")
struct ProxyTokenTests {
  /// Counts the tokens that it mints. Each mint takes long enough for every other thread to miss the token as well.
  private final class Source: TokenSource {
    private let made = Locked(0)

    var count: Int { made.withLock { $0 } }

    func mint(now: Int) throws -> ProxyToken {
      let number = made.withLock { made in
        made += 1
        return made
      }
      for _ in 0..<100 { sched_yield() }
      return ProxyToken(text: "token-\(number)", refreshAt: .max)
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
  func once() {
    for round in 1...50 {
      DispatchQueue.concurrentPerform(iterations: 8) { _ in
        #expect(proxy.currentToken()?.text == "token-\(round)")
      }
      #expect(source.count == round)
      let now = TokenRefreshPolicy.interval * round
      _ = proxy.withState { state in
        state.tokenRefresh.unauthorized(state.tokenRefresh.current, isRetry: false, now: now)
      }
    }
  }

  @Test("changes when the key changes")
  func otherKey() {
    #expect(proxy.currentToken()?.text == "token-1")
    #expect(proxy.currentToken()?.text == "token-1")
    proxy.use(source)
    #expect(proxy.currentToken()?.text == "token-2")
  }
}
