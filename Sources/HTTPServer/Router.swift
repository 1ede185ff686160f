package import EventLoop
package import HTTP1
package import HTTPMessages
import HTTPTypes
import Locks

/// The routes of a server, immutable. A request keeps the router that it began with.
package final class Router: Sendable {
  private let routes: [Route]
  private let hosts: AllowedHosts?
  private let missingPath: String
  /// Changes every response last.
  let finish: @Sendable (inout Response, Request) -> Void
  /// The field that `finish` can read in a request that had to wait, or nil for no field.
  let lastingField: StaticString?
  /// The fields that `finish` can read in a request whose head the codec has refused.
  let refusalFields: [StaticString]

  /// Creates a router.
  /// - Parameters:
  ///   - routes: The routes, tried in order.
  ///   - hosts: The host names that requests may have, checked first; nil for any.
  ///   - lastingField: The one field, in lower case, that `finish` reads.
  ///   - refusalFields: Further fields that it reads if the codec has refused the head.
  ///   - finish: Changes every response last, also refusals by the routes; for example, it adds CORS fields.
  package init(
    _ routes: [Route], hosts: AllowedHosts? = nil, lastingField: StaticString? = nil,
    refusalFields: [StaticString] = [], finish: @escaping @Sendable (inout Response, Request) -> Void = { _, _ in }
  ) {
    self.routes = routes
    // Only the public listener has a description of its paths.
    let isDescribed = routes.contains { $0.path.description == "/openapi.json" }
    missingPath = "This path does not exist." + (isDescribed ? " /openapi.json lists all paths." : "")
    self.hosts = hosts
    self.lastingField = lastingField
    self.refusalFields = (lastingField.map { [$0] } ?? []) + refusalFields
    self.finish = finish
  }

  package var patterns: [RoutePattern] { routes.flatMap(\.patterns) }

  /// Returns the operation for a request. Throws if no operation matches, or if the host or the method is refused.
  func operation(for request: Request) throws(ErrorResponse) -> Operation {
    if let refusal = hosts?.refusal(of: request) ?? Self.refusal(of: request.method) { throw refusal }
    // `OPTIONS http://host` without a path means the whole server, too (RFC 9112 §3.2.4).
    let hasNoPath = request.head.path.isEmpty && request.head.query == nil
    if request.head.targetForm == .asterisk || request.method == .options && hasNoPath { return Self.serverOptions }
    for route in routes where request.hasPath(route.path, orBelow: route.isBelow) {
      request.route = route.path
      return try operation(of: route, for: request.method)
    }
    throw ErrorResponse(.notFound, missingPath, end: request.method == .trace ? .message : .nothing)
  }

  /// Returns the error for a request that no route serves, or nil. Sets the request's route.
  package func refusal(of request: Request) -> ErrorResponse? {
    do throws(ErrorResponse) {
      _ = try operation(for: request)
      return nil
    } catch { return error }
  }

  private func operation(of route: Route, for method: RequestHead.Method) throws(ErrorResponse) -> Operation {
    let wanted = method == .head ? .get : method
    if let operation = route.operations.first(where: { $0.method == wanted || $0.method == nil }) { return operation }
    if method == .options { return Self.options(allow: route.allow) }
    throw ErrorResponse(
      .methodNotAllowed, "This path supports \(route.allow).", fields: [.allow: route.allow],
      end: method == .trace ? .message : .nothing)
  }

  /// Returns the error for a method that no route has. CONNECT would make a tunnel, so the connection closes.
  private static func refusal(of method: RequestHead.Method) -> ErrorResponse? {
    switch method {
    case .connect:
      ErrorResponse(.notImplemented, "This server is not a proxy: CONNECT is not available.", end: .message)
    case .other:
      ErrorResponse(.notImplemented, "This server does not know the request's method.", end: .message)
    default: nil
    }
  }

  private static let serverOptions = options(allow: "GET, HEAD, POST, OPTIONS")

  private static func options(allow: String) -> Operation {
    .init(method: .options, action: .reply { _ in .immediate(Response(.noContent, fields: [.allow: allow])) })
  }
}

package struct Route: Sendable {
  let path: StaticString
  /// Whether the route is of all paths that begin with `path`.
  let isBelow: Bool
  let operations: [Operation]
  package let patterns: [RoutePattern]

  /// Creates a route. `GET` includes `HEAD`, and every route has `OPTIONS`.
  package init(_ path: StaticString, _ operations: [Operation]) {
    (self.path, isBelow, self.operations) = (path, false, operations)
    patterns = [RoutePattern(path.description, operations.compactMap(\.method))]
  }

  /// Creates a route of all paths that begin with `path`. `reply` decides which exist, and may set a more specific route.
  /// - Parameters:
  ///   - patterns: The patterns of the existing paths.
  ///   - isRefusedEarly: Whether a loop that is behind may refuse requests of a client with much waiting work, unseen by
  ///     `reply`, except `OPTIONS`. Their route is then `path`.
  package init(
    below path: StaticString, patterns: [RoutePattern] = [], isRefusedEarly: Bool = false,
    _ reply: @escaping @Sendable (Request) -> Reply
  ) {
    (self.path, isBelow, self.patterns) = (path, true, patterns)
    operations = [Operation(method: nil, action: .reply(reply), isRefusedEarly: isRefusedEarly)]
  }

  /// The value of `Allow` (RFC 9110 §10.2.1).
  var allow: String {
    (operations.map { $0.method == .get ? "GET, HEAD" : "POST" } + ["OPTIONS"]).joined(separator: ", ")
  }
}

/// A path that a router serves and its methods, for descriptions of a server.
package struct RoutePattern: Sendable, Hashable {
  /// A path, or a template with names in braces: `/v1/storefronts/{storefront}`.
  package let path: String
  /// The methods. `GET` includes `HEAD`, and every path has `OPTIONS`.
  package let methods: [RequestHead.Method]

  package init(_ path: String, _ methods: [RequestHead.Method] = [.get]) { (self.path, self.methods) = (path, methods) }
}

package struct Operation: Sendable {
  /// Nil for any method.
  let method: RequestHead.Method?
  let action: Action
  var isRefusedEarly = false

  enum Action: Sendable {
    /// Checks the head, and then reads content of at most `limit` bytes.
    case read(limit: Int, @Sendable (Request) -> HeadReply)
    /// Responds at once, and request content is discarded; or after a wait, and may read the content meanwhile.
    case reply(@Sendable (Request) -> Reply)
  }

  /// Returns an operation without request content. Content in a request is discarded.
  package static func get(_ respond: @escaping @Sendable (Request) -> Response) -> Operation {
    get(reply: { .immediate(respond($0)) })
  }

  /// Returns an operation without request content for a response that may have to wait.
  package static func get(reply: @escaping @Sendable (Request) -> Reply) -> Operation {
    Operation(method: .get, action: .reply(reply))
  }

  /// Returns an operation that reads content of at most `bodyLimit` bytes, else 413, if `judge` accepts the head.
  package static func post(bodyLimit: Int, judge: @escaping @Sendable (Request) -> HeadReply) -> Operation {
    Operation(method: .post, action: .read(limit: bodyLimit, judge))
  }
}

/// A handler's response to a request: immediate, or after work that waits.
package enum Reply: Sendable {
  case immediate(Response)
  case deferred(DeferredWork)
}

/// Work that waits. It is cancelled when the client goes away. It has no `Request`: the handler copies what it needs.
package struct DeferredWork: Sendable {
  let begin: Begin
  let instead: (@Sendable () -> Response?)?

  /// Begins work on the loop of the context. It calls `respond` once: at once or later on the loop, or on the thread that
  /// cancels. Returns the work, or nil if it has called `respond`.
  package typealias Begin =
    @Sendable (
      _ context: RequestContext, _ respond: @escaping @Sendable (consuming Response) -> Void
    ) -> (any CancellableWork)?

  /// Creates the work of one request, which a task of the connection's loop does.
  package init(perform: @escaping @Sendable (RequestContext) async -> Response) {
    self.init { context, respond in Task(executorPreference: context.loop) { respond(await perform(context)) } }
  }

  /// Creates the work of one request, which needs no task. A task keeps memory, and costs as much as a small response.
  /// - Parameter instead: Returns a response without the work, if there is one, when the server has more work than it can
  ///   do. Otherwise it responds with 503.
  package init(instead: (@Sendable () -> Response?)? = nil, begin: @escaping Begin) {
    (self.instead, self.begin) = (instead, begin)
  }

  /// Does the work in the present task. Cancelling the task cancels the work.
  package func perform(_ context: RequestContext) async -> Response {
    let response = OneShot<Response>()
    let work = begin(context) { response.resume($0) }
    return await withTaskCancellationHandler {
      await response.get()
    } onCancel: {
      work?.cancel()
    }
  }
}

/// A handler's response to the head of a request, before its content is read.
package enum HeadReply: Sendable {
  case immediate(Response)
  /// The handler for the content, without the `Request`: it must copy what it needs.
  case read(@Sendable (_ content: [UInt8]) -> Reply)
}

package struct RequestContext: Sendable {
  package let loop: IOLoop
  /// The request's content, as it arrives; nil without content, or if it was read before. It need not be read.
  package let content: (any ContentReader)?
  /// The length of the content in bytes, or nil if the client did not declare it; 0 without content.
  package let contentLength: Int?
  /// How long the work has waited for its turn.
  package internal(set) var waited = Duration.zero
}
