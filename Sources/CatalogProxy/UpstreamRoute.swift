public import HTTPMessages

/// The upstream as one event loop sees it, and that loop.
public struct UpstreamRoute: Sendable {
  /// Where requests are sent.
  public let upstream: any Upstream
  /// The loop, on which everything about it happens.
  public let executor: any TaskExecutor

  /// A route.
  public init(_ upstream: any Upstream, executor: any TaskExecutor) {
    self.upstream = upstream
    self.executor = executor
  }
}
