import HTTP1

/// A path and what can be done there.
public struct Route: Sendable {
  let path: StaticString
  let operations: [Operation]

  /// A route. `HEAD` comes with `GET`, and `OPTIONS` by itself.
  public init(_ path: StaticString, _ operations: [Operation]) {
    self.path = path
    self.operations = operations
  }

  /// The value of `Allow` (RFC 9110 §10.2.1).
  var allow: String {
    let methods = operations.flatMap { operation -> [String] in
      operation.method == .get ? ["GET", "HEAD"] : ["POST"]
    }
    return (methods + ["OPTIONS"]).joined(separator: ", ")
  }
}
