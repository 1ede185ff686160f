import HTTPCache
import Synchronization
import Tracing
import UpstreamAdmission

/// One attempt to send a request: its turn at the upstream, what it is sent with, and what the state must learn from it. The
/// state learns from a complete response in one critical section, at the end of the attempt.
///
/// The turn is released exactly once: when the response is complete or cancelled, or with this object.
final class CatalogAttempt: @unchecked Sendable {
  // Sendable by confinement to the flight that sends the request. Any thread may release the turn.
  private let permit: ConcurrencyPermit
  private let gateway: CatalogGateway
  private let isReleased = Atomic(false)
  let pass: UpstreamCircuit.Pass
  let token: ProxyToken
  /// The span of the attempt; nil if the request has none.
  let span: SpanContext?
  let start: CacheTime
  /// What the head of the response shows; nil before there is one, and when the state knows it.
  var head: HeadFacts?
  /// Whether callers may share the response that was stored; nil for none.
  var isShareable: Bool?

  init(
    _ permit: ConcurrencyPermit, of gateway: CatalogGateway, _ pass: UpstreamCircuit.Pass, _ token: ProxyToken,
    _ span: SpanContext?, at start: CacheTime
  ) {
    (self.permit, self.gateway) = (permit, gateway)
    (self.pass, self.token, self.span, self.start) = (pass, token, span, start)
  }

  deinit { release(.inconclusive) }

  /// Whether the turn has been released.
  var isOver: Bool { isReleased.load(ordering: .relaxed) }

  /// Releases the turn with the upstream's outcome. A second call does nothing.
  func release(_ outcome: ConcurrencyOutcome) {
    if let permit = takePermit() { gateway.release(permit, outcome) }
  }

  /// Returns the turn for the caller to release; nil if it was released before.
  func takePermit() -> ConcurrencyPermit? {
    isReleased.exchange(true, ordering: .relaxed) ? nil : permit
  }
}

/// What the head of a response shows about the upstream, for the state.
struct HeadFacts: Sendable {
  let circuit: CircuitOutcome
  /// Whether Apple has accepted the developer token.
  let provesToken: Bool
  /// Whether the caller gets the response.
  let isFinal: Bool
  /// The value of `Date` in seconds since 1970; nil if it does not tell the upstream's present time.
  let date: Int?
  let receivedAt: CacheTime
}
