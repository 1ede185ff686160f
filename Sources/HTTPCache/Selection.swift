import Bytes
public import HTTP1

/// A stored response at a moment.
public struct Selection: Sendable {
  /// The response.
  public let response: StoredResponse
  /// The age (`current_age`, RFC 9111 §4.2.3) in seconds.
  public let age: Int
  /// The remaining freshness lifetime in seconds. 0 or less if the response is stale.
  public let timeToLive: Int

  /// Evaluates `response` at `now`.
  public init(_ response: StoredResponse, now: CacheTime) {
    self.response = response
    age = min(response.age.initial + now.seconds(since: response.source.receivedAt), FieldText.mostSeconds)
    timeToLive = response.freshness.lifetime - age
  }

  /// Whether the response may be used without validation (RFC 9111 §4.2), before the caller's directives apply.
  public var isFresh: Bool { timeToLive > 0 && !response.freshness.noCache }

  /// Returns whether the response may be served if the upstream fails (RFC 5861 §4, RFC 9111 §4.2.4). A caller with
  /// `no-cache` does not get it without validation. A caller's own `stale-if-error` overrides the response's limit.
  public func mayServeOnError(_ request: RequestDirectives) -> Bool {
    guard !request.noCache, !response.freshness.noCache else { return false }
    if isFresh { return true }
    return !response.freshness.forbidsStale && -timeToLive < request.staleIfError ?? response.freshness.staleIfError
  }

  /// Returns whether the response may be served while the upstream is slow to validate it. A caller with `max-age` or
  /// `min-fresh` does not get it.
  public func mayServeWhileWaiting(_ request: RequestDirectives) -> Bool {
    request.maxAge == nil && request.minFresh == nil && mayServeOnError(request)
  }

  /// Returns the fields that differ on each send: the origin's Date (RFC 9110 §6.6.1), Age and Cache-Status.
  ///
  /// - Parameter isValidated: Whether the response was validated just now. Otherwise it needs an Age, even 0 (RFC 9111
  ///   §5.1).
  public func fields(_ status: CacheStatus, isValidated: Bool) -> FieldSection {
    var section = FieldSection.empty
    // Date takes 37 bytes, Age 28 at most, and the rest of Cache-Status 16.
    section.reserveRoom(for: 81 + status.mostBytes)
    let date = response.date
    section.append(date: date.span)
    if age > 0 || !isValidated { section.append("Age", upTo: 21) { $0.append(decimal: age) } }
    section.append("Cache-Status", upTo: status.mostBytes) { status.append(to: &$0) }
    return section
  }

  /// Returns how the cache may use this response for a request with these directives.
  package func use(for request: RequestDirectives) -> Lookup {
    let isYoungEnough = request.maxAge.map { age <= $0 } ?? true
    let isWanted = !request.noCache && isYoungEnough
    if isFresh {
      if isWanted, timeToLive >= request.minFresh ?? 0 { return .hit(self) }
      return request.onlyIfCached ? .unsatisfiable : .validate(self, .request)
    }
    if isWanted, request.minFresh == nil, !response.freshness.forbidsStale {
      if let most = request.maxStale, -timeToLive <= most { return .hit(self) }
      // max-age without max-stale requires a fresh response (RFC 9111 §5.2.1.1).
      if request.maxAge == nil, -timeToLive < response.freshness.staleWhileRevalidate {
        return .staleWhileRevalidate(self)
      }
    }
    return request.onlyIfCached ? .unsatisfiable : .validate(self, .stale)
  }
}
