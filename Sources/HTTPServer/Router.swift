public import EventLoop
public import HTTP1
public import HTTPMessages
import HTTPTypes
import Locks

/// The routes of a server, immutable. A request keeps the router that it began with.
public final class Router: Sendable {
  private let routes: [Route]
  private let hosts: AllowedHosts?
  /// What a 404 says.
  private let missingPath: String
  /// Changes every response last.
  let finish: @Sendable (inout Response, Request) -> Void
  /// The field that `finish` can read in a request that had to wait, or nil for no field.
  let lastingField: StaticString?
  /// The fields that `finish` can read in a request whose head the codec has refused.
  let refusalFields: [StaticString]

  /// Creates a router.
  ///
  /// - Parameters:
  ///   - routes: The routes, tried in order.
  ///   - hosts: The host names that requests may have, checked first; nil for any.
  ///   - lastingField: The one field, in lower case, that `finish` reads.
  ///   - refusalFields: Further fields that it reads if the codec has refused the head.
  ///   - finish: Changes every response last, also refusals by the routes; for example, it adds CORS fields.
  public init(
    _ routes: [Route], hosts: AllowedHosts? = nil, lastingField: StaticString? = nil,
    refusalFields: [StaticString] = [],
    finish: @escaping @Sendable (inout Response, Request) -> Void = { _, _ in }
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

  /// The patterns of all routes.
  public var patterns: [RoutePattern] { routes.flatMap(\.patterns) }

  /// Returns the operation for a request. Throws if no operation matches, or if the host or the method is refused.
  func operation(for request: Request) throws(ErrorResponse) -> Operation {
    if let refusal = hosts?.refusal(of: request) ?? Self.refusal(of: request.method) { throw refusal }
    // `OPTIONS http://host` without a path means the whole server, too (RFC 9112 §3.2.4).
    let hasNoPath = request.head.path.isEmpty && request.head.query == nil
    if request.head.targetForm == .asterisk || request.method == .options && hasNoPath { return Self.serverOptions }
    for route in routes where route.isBelow ? request.hasPath(below: route.path) : request.hasPath(route.path) {
      request.route = route.path
      return try operation(of: route, for: request.method)
    }
    throw ErrorResponse(.notFound, missingPath, end: request.method == .trace ? .message : .nothing)
  }

  /// Returns the error for a request that no route serves, or nil. Sets the request's route.
  public func refusal(of request: Request) -> ErrorResponse? {
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

  /// Returns the error for a method that no route has. CONNECT would make the connection a tunnel, so it closes.
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

/// A path and its operations.
public struct Route: Sendable {
  let path: StaticString
  /// Whether the route is of all paths that begin with `path`.
  let isBelow: Bool
  let operations: [Operation]
  /// The patterns of the route, for descriptions of the server.
  public let patterns: [RoutePattern]

  /// Creates a route. `GET` includes `HEAD`, and every route has `OPTIONS`.
  public init(_ path: StaticString, _ operations: [Operation]) {
    self.path = path
    isBelow = false
    self.operations = operations
    patterns = [RoutePattern(path.description, operations.compactMap(\.method))]
  }

  /// Creates a route of all paths that begin with `path`. `reply` decides which paths and methods exist. It may set the
  /// request's route to a more specific template.
  ///
  /// - Parameters:
  ///   - patterns: The patterns of the existing paths, for descriptions of the server.
  ///   - isRefusedEarly: Whether a loop that is behind may refuse requests of a client with much waiting work, unseen by
  ///     `reply`, except `OPTIONS`. Their route is then `path`.
  public init(
    below path: StaticString, patterns: [RoutePattern] = [], isRefusedEarly: Bool = false,
    _ reply: @escaping @Sendable (Request) -> Reply
  ) {
    self.path = path
    isBelow = true
    operations = [Operation(method: nil, action: .reply(reply), isRefusedEarly: isRefusedEarly)]
    self.patterns = patterns
  }

  /// The value of `Allow` (RFC 9110 §10.2.1).
  var allow: String {
    let methods = operations.flatMap { operation -> [String] in
      operation.method == .get ? ["GET", "HEAD"] : ["POST"]
    }
    return (methods + ["OPTIONS"]).joined(separator: ", ")
  }
}

/// A path that a router serves and its methods, for descriptions of a server.
public struct RoutePattern: Sendable, Hashable {
  /// A path, or a template with names in braces: `/v1/storefronts/{storefront}`.
  public let path: String
  /// The methods. `GET` includes `HEAD`, and every path has `OPTIONS`.
  public let methods: [RequestHead.Method]

  /// Creates a pattern.
  public init(_ path: String, _ methods: [RequestHead.Method] = [.get]) {
    self.path = path
    self.methods = methods
  }
}

/// The action of a route for one method.
public struct Operation: Sendable {
  /// Nil for any method.
  let method: RequestHead.Method?
  let action: Action
  /// Whether a loop that is behind may refuse requests of a client with much waiting work, unseen by the handler.
  var isRefusedEarly = false

  enum Action: Sendable {
    /// Checks the head, and then reads content of at most `limit` bytes.
    case read(limit: Int, @Sendable (Request) -> HeadReply)
    /// Responds at once, and request content is discarded; or after a wait, and may read the content meanwhile.
    case reply(@Sendable (Request) -> Reply)
  }

  /// Returns an operation without request content. Content in a request is discarded.
  public static func get(_ respond: @escaping @Sendable (Request) -> Response) -> Operation {
    get(reply: { .immediate(respond($0)) })
  }

  /// Returns an operation without request content for a response that may have to wait.
  public static func get(reply: @escaping @Sendable (Request) -> Reply) -> Operation {
    Operation(method: .get, action: .reply(reply))
  }

  /// Returns an operation that reads content of at most `bodyLimit` bytes, else 413, if `judge` accepts the head.
  public static func post(bodyLimit: Int, judge: @escaping @Sendable (Request) -> HeadReply) -> Operation {
    Operation(method: .post, action: .read(limit: bodyLimit, judge))
  }
}

/// A handler's response to a request: immediate, or after a wait.
public enum Reply: Sendable {
  /// The response.
  case immediate(Response)
  /// The response after work that waits.
  case deferred(DeferredWork)
}

/// Work that waits. It is cancelled when the client goes away. It has no `Request`: the handler copies what it needs.
public struct DeferredWork: Sendable {
  let begin: Begin
  let instead: (@Sendable () -> Response?)?

  /// Begins work on the loop of the context. It calls `respond` once: at once or later on the loop, or on the thread that
  /// cancels. Returns the work, or nil if it has called `respond`.
  public typealias Begin =
    @Sendable (
      _ context: RequestContext, _ respond: @escaping @Sendable (consuming Response) -> Void
    ) -> (any CancellableWork)?

  /// Creates the work of one request, which a task of the connection's loop does.
  public init(perform: @escaping @Sendable (RequestContext) async -> Response) {
    self.init { context, respond in
      // An unstructured task does not inherit the preference, and without it would run on the global pool.
      Task(executorPreference: context.loop) { respond(await perform(context)) }
    }
  }

  /// Creates the work of one request, which needs no task. A task keeps memory, and costs as much as a small response.
  ///
  /// - Parameter instead: Returns a response without the work, if there is one. The server calls it when it has more work
  ///   than it can do, and responds with 503 if it returns nil.
  public init(instead: (@Sendable () -> Response?)? = nil, begin: @escaping Begin) {
    self.instead = instead
    self.begin = begin
  }

  /// Does the work in the present task. Cancelling the task cancels the work.
  public func perform(_ context: RequestContext) async -> Response {
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
public enum HeadReply: Sendable {
  /// The response, which does not depend on the content.
  case immediate(Response)
  /// The handler for the content. The `Request` is not available to it, so the handler must copy what it needs.
  case read(@Sendable (_ content: [UInt8]) -> Reply)
}

/// The context for the work of a request.
public struct RequestContext: Sendable {
  /// The event loop that runs the work.
  public let loop: IOLoop
  /// The request's content, as it arrives; nil without content, or if it was read before. It need not be read.
  public let content: (any ContentReader)?
  /// The length of the content in bytes, or nil if the client did not declare it; 0 without content.
  public let contentLength: Int?
  /// How long the work has waited for its turn.
  public internal(set) var waited = Duration.zero
}
