/// The trace that a request belongs to, and the server's span of the request.
///
/// A caller may choose the trace, which is only a correlation. What costs something or reaches Apple as the caller wrote it,
/// the `sampled` flag and `tracestate`, counts only from trusted proxies.
public struct RequestTrace: Sendable {
  /// The identifier that the server made for the request. It is also the trace, if the request has no parent.
  let own: TraceID
  /// The span of the caller, from a valid `traceparent`.
  public let parent: SpanContext?
  /// Whether a trusted proxy wrote the fields of the parent.
  let isParentTrusted: Bool

  /// Creates the trace of a request. No other request has the identifier `own`. Without a parent it begins a trace.
  public init(_ own: TraceID, parent: SpanContext? = nil, isParentTrusted: Bool = false) {
    (self.own, self.parent, self.isParentTrusted) = (own, parent, isParentTrusted)
  }

  /// The trace: the caller's, or a new one.
  public var traceID: TraceID { parent?.traceID ?? own }
  /// The server's span of this request.
  public var spanID: SpanID { SpanID(ofRequest: own) }

  /// Returns the server's span, for requests that it causes. Without a sampler it has the flag of a trusted proxy.
  public func context(_ sampler: Sampler? = nil) -> SpanContext {
    let isSampled = sampler?.records(self) ?? (isParentTrusted && parent?.isSampled == true)
    return SpanContext(traceID: traceID, spanID: spanID, isSampled: isSampled, state: parent?.state)
  }
}
