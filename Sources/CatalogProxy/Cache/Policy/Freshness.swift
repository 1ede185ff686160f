import HTTPTypes

/// How long an answer may be used, and how (RFC 9111 §4.2, RFC 5861). Lengths of time in seconds.
struct Freshness: Equatable {
  /// The freshness lifetime.
  let lifetime: Int
  /// Whether the origin named it, rather than our settings.
  let isExplicit: Bool
  /// How long beyond it the answer is served while it is being validated.
  let staleWhileRevalidate: Int
  /// How long beyond it the answer stands in for an upstream that fails.
  let staleIfError: Int
  /// Whether it may not be used at all without validation.
  let noCache: Bool
  /// Whether it may not be used stale, not even if a caller or our settings would have it.
  let forbidsStale: Bool

  /// - Parameters:
  ///   - directives: `Cache-Control` of the response.
  ///   - fields: All of its fields.
  ///   - status: Its status code.
  ///   - date: When it was made, in seconds since the epoch.
  init(
    _ directives: ResponseDirectives, fields: HTTPFields, status: Int, date: Int, now: Int, settings: CacheSettings
  ) {
    let explicit =
      directives.sharedMaxAge ?? directives.maxAge ?? Self.lifetime(untilExpiry: fields, date: date, now: now)
    let usual = status == 404 || status == 410 ? settings.negativeLifetime : settings.lifetime
    lifetime = explicit ?? usual
    isExplicit = explicit != nil
    noCache = directives.noCache
    forbidsStale = directives.forbidsStale
    let whileRevalidate = directives.staleWhileRevalidate ?? (explicit == nil ? settings.staleWhileRevalidate : 0)
    staleWhileRevalidate = forbidsStale ? 0 : whileRevalidate
    staleIfError = forbidsStale ? 0 : directives.staleIfError ?? settings.staleIfError
  }

  /// The lifetime that `Expires` names (RFC 9111 §5.3). What is no date, "0" above all, lies in the past, and so do two
  /// that differ. Nil without the field.
  static func lifetime(untilExpiry fields: HTTPFields, date: Int, now: Int) -> Int? {
    let values = fields[values: .expires]
    guard let value = values.first else { return nil }
    guard values.allSatisfy({ $0.utf8.elementsEqual(value.utf8) }), let expiry = FieldDate.seconds(value, now: now)
    else { return 0 }
    return min(max(expiry - date, 0), FieldText.mostSeconds)
  }
}
