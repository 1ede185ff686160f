public import HTTPMessages

/// The upstream connections of one event loop, and that loop.
public final class UpstreamRoute: Sendable {
  /// The upstream that receives the requests.
  public let upstream: any Upstream
  /// The event loop on which the upstream runs.
  public let executor: any TaskExecutor
  /// The cache that this replica shares with others; nil without one.
  package let shared: (any SharedCache)?

  /// Creates a route.
  public convenience init(_ upstream: any Upstream, executor: any TaskExecutor) {
    self.init(upstream, executor: executor, shared: nil)
  }

  /// Creates a route of a replica that may share its responses with others.
  package init(_ upstream: any Upstream, executor: any TaskExecutor, shared: (any SharedCache)?) {
    self.upstream = upstream
    self.executor = executor
    self.shared = shared
  }
}
