/// Decides which spans the server records, by the rules of OpenTelemetry's samplers (OTEL_TRACES_SAMPLER). The decision
/// depends only on the request and its fields, so every part of the server gets the same one.
public struct Sampler: Sendable, Equatable {
  /// The decision about a trace without a decision of its parent.
  public enum Root: Sendable, Equatable {
    /// Every trace is recorded.
    case always
    /// No trace is recorded.
    case never
    /// A part of all traces is recorded, from 0 to 1.
    case ratio(Double)
  }

  /// The decision about a trace that begins here.
  public let root: Root
  /// Whether the caller's decision counts, if the request has a caller's span.
  public let isParentBased: Bool

  /// Creates a sampler.
  public init(_ root: Root, isParentBased: Bool) { (self.root, self.isParentBased) = (root, isParentBased) }

  /// Returns whether the server records its spans of the request.
  ///
  /// Any caller can save the server the work; only a trusted proxy can cause it: for others a trace begins here.
  public func records(_ trace: RequestTrace) -> Bool {
    guard let parent = trace.parent else { return records(trace.own) }
    if isParentBased {
      guard parent.isSampled else { return false }
      if trace.isParentTrusted { return true }
    }
    // A stranger could choose a trace ID that every ratio records.
    return records(trace.isParentTrusted ? parent.traceID : trace.own)
  }

  private func records(_ id: TraceID) -> Bool {
    switch root {
    case .always: true
    case .never: false
    // As in other implementations, so that services with one ratio record the same traces.
    case .ratio(let part): Double(id.low >> 1) < part * 0x1p63
    }
  }
}
