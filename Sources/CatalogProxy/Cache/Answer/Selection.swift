public import HTTPTypes

/// An answer at a moment.
public struct Selection: Sendable {
  /// The answer.
  public let answer: StoredAnswer
  /// How old it is (`current_age`, RFC 9111 §4.2.3), in seconds.
  public let age: Int
  /// How long it stays fresh, in seconds; 0 or less if it is stale.
  public let timeToLive: Int

  /// `answer` at `now`.
  public init(_ answer: StoredAnswer, now: CacheTime) {
    self.answer = answer
    age = min(answer.age.initial + now.seconds(since: answer.source.receivedAt), FieldText.mostSeconds)
    timeToLive = answer.freshness.lifetime - age
  }

  /// Whether it may be used without asking upstream (RFC 9111 §4.2), a caller's wishes aside.
  public var isFresh: Bool { timeToLive > 0 && !answer.freshness.noCache }

  /// Whether it may stand in for an upstream that fails (RFC 5861 §4, RFC 9111 §4.2.4). A caller who wants no stored
  /// answer without validation does not get one; one who names a bound of his own gets his.
  public func mayServeOnError(_ request: RequestDirectives) -> Bool {
    guard !request.noCache, !answer.freshness.noCache else { return false }
    if isFresh { return true }
    return !answer.freshness.forbidsStale && -timeToLive < request.staleIfError ?? answer.freshness.staleIfError
  }

  /// Whether it may be sent while the upstream is slow to say whether it still holds. Not to a caller who says how fresh
  /// its response has to be.
  public func mayServeWhileWaiting(_ request: RequestDirectives) -> Bool {
    request.maxAge == nil && request.minFresh == nil && mayServeOnError(request)
  }

  /// The fields that change from response to response: Date, which is the origin's (RFC 9110 §6.6.1), Age, Cache-Status.
  public func fields(_ status: CacheStatus) -> HTTPFields {
    var fields = HTTPFields()
    fields.reserveCapacity(3)
    fields.append(answer.dateField)
    // Required where the answer was not validated just now (RFC 9111 §5.1).
    if age > 0 || status.isHit { fields.append(HTTPField(name: .age, value: String(age))) }
    if let name = CacheStatus.fieldName { fields.append(HTTPField(name: name, value: status.fieldValue)) }
    return fields
  }

  /// How the cache may use this response for a request with these directives.
  func use(for request: RequestDirectives) -> Lookup {
    let isYoungEnough = request.maxAge.map { age <= $0 } ?? true
    let isWanted = !request.noCache && isYoungEnough
    if isFresh {
      if isWanted, timeToLive >= request.minFresh ?? 0 { return .hit(self) }
      return request.onlyIfCached ? .unsatisfiable : .validate(self, .request)
    }
    if isWanted, request.minFresh == nil, !answer.freshness.forbidsStale {
      if let most = request.maxStale, -timeToLive <= most { return .hit(self) }
      // max-age without max-stale asks for a fresh answer (RFC 9111 §5.2.1.1).
      if request.maxAge == nil, -timeToLive < answer.freshness.staleWhileRevalidate {
        return .staleWhileRevalidate(self)
      }
    }
    return request.onlyIfCached ? .unsatisfiable : .validate(self, .stale)
  }
}
