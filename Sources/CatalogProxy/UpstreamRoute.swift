public import HTTPMessages

/// The upstream connections of one event loop, and that loop.
public final class UpstreamRoute: Sendable {
  /// The upstream that receives the requests.
  public let upstream: any Upstream
  /// The event loop on which the upstream runs.
  public let executor: any TaskExecutor
  /// The cache that this replica shares with others; nil without one.
  package let shared: (any SharedCache)?

  package init(_ upstream: any Upstream, executor: any TaskExecutor, shared: (any SharedCache)? = nil) {
    (self.upstream, self.executor, self.shared) = (upstream, executor, shared)
  }
}
