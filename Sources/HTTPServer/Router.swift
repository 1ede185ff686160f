import HTTP1
import HTTPTypes

/// Which operation answers which request. An immutable value: a request is answered by the one it began with.
public struct Router: Sendable {
  private let routes: [Route]
  private let hosts: AllowedHosts?
  private let finish: @Sendable (inout Response, Request) -> Void
  /// The field whose lines `finish` finds in a request that had to wait; nil for none.
  let lastingField: StaticString?

  /// A router.
  ///
  /// - Parameters:
  ///   - routes: Looked through in order.
  ///   - hosts: The host names that requests may name, checked before anything else; nil for any.
  ///   - lastingField: The one field, in lower case, that `finish` reads.
  ///   - finish: Changes every response last, refusals by the routes included; for example, it adds CORS fields.
  public init(
    _ routes: [Route], hosts: AllowedHosts? = nil, lastingField: StaticString? = nil,
    finish: @escaping @Sendable (inout Response, Request) -> Void = { _, _ in }
  ) {
    self.routes = routes
    self.hosts = hosts
    self.lastingField = lastingField
    self.finish = finish
  }

  /// What all of its routes serve.
  public var patterns: [RoutePattern] { routes.flatMap(\.patterns) }

  /// The operation for a request. Throws if no operation matches, or if the host or the method is refused.
  func operation(for request: Request) throws(Refusal) -> Operation {
    if let refusal = hosts?.refusal(of: request) ?? Self.refusal(of: request.method) { throw refusal }
    if request.head.targetForm == .asterisk || asksForServerOptions(request) { return Self.serverOptions }
    for route in routes {
      if let reply = route.below {
        guard request.hasPath(below: route.path) else { continue }
        request.route = route.path
        return Operation(method: request.method, action: .reply(reply))
      }
      guard request.hasPath(route.path) else { continue }
      request.route = route.path
      return try operation(of: route, for: request.method)
    }
    throw Refusal(
      .notFound, "There is nothing at this path. /openapi.json lists what there is.",
      closesConnection: request.method == .trace)
  }

  /// A response with the last word said.
  func finished(_ response: Response, for request: Request) -> Response {
    var response = response
    finish(&response, request)
    return response
  }

  private func operation(of route: Route, for method: RequestHead.Method) throws(Refusal) -> Operation {
    let wanted = method == .head ? .get : method
    if let operation = route.operations.first(where: { $0.method == wanted }) { return operation }
    if method == .options { return Self.options(allow: route.allow) }
    throw Refusal(
      .methodNotAllowed, "This path answers \(route.allow).", fields: [.allow: route.allow],
      closesConnection: method == .trace)
  }

  /// Methods that no route has: CONNECT would make a tunnel of the connection, so it closes.
  private static func refusal(of method: RequestHead.Method) -> Refusal? {
    switch method {
    case .connect:
      Refusal(.notImplemented, "This server is no proxy: CONNECT is not available.", closesConnection: true)
    case .other:
      Refusal(.notImplemented, "This server does not know the request's method.", closesConnection: true)
    default: nil
    }
  }

  /// `OPTIONS http://host` without a path means the server as a whole (RFC 9112 §3.2.4).
  private func asksForServerOptions(_ request: Request) -> Bool {
    request.method == .options && request.head.path.isEmpty && request.head.query == nil
  }

  private static let serverOptions = options(allow: "GET, HEAD, POST, OPTIONS")

  private static func options(allow: String) -> Operation {
    Operation(method: .options, action: .respond { _ in Response(.noContent, fields: [.allow: allow]) })
  }
}
