import HTTP1

/// A path and what can be done there.
public struct Route: Sendable {
  let path: StaticString
  let operations: [Operation]
  /// Takes every request for a path that begins with `path`, whatever its method; nil for a route of one path.
  let below: (@Sendable (Request) -> Reply)?
  /// What it serves, for descriptions of the server.
  public let patterns: [RoutePattern]

  /// A route. `HEAD` comes with `GET`, and `OPTIONS` by itself.
  public init(_ path: StaticString, _ operations: [Operation]) {
    self.path = path
    self.operations = operations
    below = nil
    patterns = [RoutePattern(path.description, operations.map(\.method))]
  }

  /// A route of all paths that begin with `path`. What is there, and by which methods, is for `reply` to judge; it may
  /// set the request's route to a template that says more.
  ///
  /// - Parameter patterns: What is there, for descriptions of the server.
  public init(
    below path: StaticString, patterns: [RoutePattern] = [], _ reply: @escaping @Sendable (Request) -> Reply
  ) {
    self.path = path
    self.patterns = patterns
    operations = []
    below = reply
  }

  /// The value of `Allow` (RFC 9110 §10.2.1).
  var allow: String {
    let methods = operations.flatMap { operation -> [String] in
      operation.method == .get ? ["GET", "HEAD"] : ["POST"]
    }
    return (methods + ["OPTIONS"]).joined(separator: ", ")
  }
}
