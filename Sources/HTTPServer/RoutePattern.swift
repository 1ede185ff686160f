public import HTTP1

/// A path that a router serves, with what can be done there: for descriptions of a server.
public struct RoutePattern: Sendable, Hashable {
  /// A path, or a template of paths with names in braces: `/v1/storefronts/{storefront}`.
  public let path: String
  /// The methods. `HEAD` comes with `GET`, and `OPTIONS` by itself.
  public let methods: [RequestHead.Method]

  /// A pattern.
  public init(_ path: String, _ methods: [RequestHead.Method] = [.get]) {
    self.path = path
    self.methods = methods
  }
}
