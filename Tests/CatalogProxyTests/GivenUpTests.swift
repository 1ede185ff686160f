import Bytes
import HTTP1
import HTTPMessages
import HTTPTypes
import TestSupport
import Testing

@testable import CatalogProxy
@testable import HTTPCache
@testable import UpstreamAdmission

@Suite("A request that ends early")
struct GivenUpTests {
  /// Fails every request as cancelled, as an upstream does after its client was closed.
  private struct ClosedUpstream: Upstream {
    /// What happens before.
    let event: @Sendable () async -> Void

    func call(_ request: UpstreamRequest, limits: UpstreamTimeouts) -> any UpstreamCall {
      ScriptedCall { () throws(UpstreamError) in
        await event()
        throw UpstreamError(.cancelled, .unanswered, "The client was closed.")
      }
    }

    func pause(for duration: Duration) async throws(CancellationError) {}

    func alarm(after duration: Duration, _ ring: @escaping @Sendable () -> Void) -> any CancellableWork {
      Task { ring() }
    }
  }

  private struct Silent: CatalogObserver {
    func noticed(_ notice: CatalogNotice) {}
  }

  private struct Tokens: TokenSource {
    func mint(now: Int) throws -> ProxyToken { ProxyToken(text: "token", refreshAt: .max, expiresAt: .max) }
  }

  private func respond(after event: @escaping @Sendable () async -> Void = {}) async throws -> CatalogReply {
    // The clock stands still, because the threads that tasks share may be busy for long.
    let clock = CatalogClock { CacheTime(monotonic: 1_000_000_000, wall: 1_795_000_000) }
    let proxy = CatalogGateway(
      .init(upstream: "https://a.example", nextHop: "a.example"), observer: Silent(), clock: clock)
    proxy.use(Tokens())
    _ = await proxy.token()
    let target = try CatalogTarget(
      path: Array("/v1/catalog/us/songs/1".utf8).span, query: nil, allowsMe: false, hasUserToken: false)
    let call = CatalogCall(
      .get, target, directives: RequestDirectives(), preconditions: Preconditions(), coding: .identity, fields: [:])
    let upstream = ClosedUpstream(event: event)
    return await proxy.respond(call, by: UpstreamRoute(upstream, executor: globalConcurrentExecutor))
  }

  @Test("a request that the server cancels ends with an error for its caller")
  func byTheServer() async throws {
    guard case .failure(let failure) = try await respond() else {
      Issue.record("The caller is told nothing.")
      return
    }
    #expect(failure.code == .upstreamError)
    #expect(failure.fields[.proxyStatus]?.contains("error=proxy_internal_error;") == true)
  }

  @Test("a request whose caller has gone has no outcome")
  func byTheCaller() async throws {
    let task = Task { () -> Bool in
      await waitForCancellation()
      // The upstream's own end, at the same moment, could come first.
      if case .cancelled = try await respond(after: waitForCancellation) { return true }
      return false
    }
    task.cancel()
    #expect(try await task.value)
  }
}
