public import EventLoop
public import HTTP1
public import HTTPMessages
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
  func operation(for request: Request) throws(ErrorResponse) -> Operation {
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
    throw ErrorResponse(
      .notFound, "There is nothing at this path. /openapi.json lists what there is.",
      closesConnection: request.method == .trace)
  }

  /// A response with the last word said.
  func finished(_ response: Response, for request: Request) -> Response {
    var response = response
    finish(&response, request)
    return response
  }

  private func operation(of route: Route, for method: RequestHead.Method) throws(ErrorResponse) -> Operation {
    let wanted = method == .head ? .get : method
    if let operation = route.operations.first(where: { $0.method == wanted }) { return operation }
    if method == .options { return Self.options(allow: route.allow) }
    throw ErrorResponse(
      .methodNotAllowed, "This path answers \(route.allow).", fields: [.allow: route.allow],
      closesConnection: method == .trace)
  }

  /// Methods that no route has: CONNECT would make a tunnel of the connection, so it closes.
  private static func refusal(of method: RequestHead.Method) -> ErrorResponse? {
    switch method {
    case .connect:
      ErrorResponse(.notImplemented, "This server is no proxy: CONNECT is not available.", closesConnection: true)
    case .other:
      ErrorResponse(.notImplemented, "This server does not know the request's method.", closesConnection: true)
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

/// What a route does for one method.
public struct Operation: Sendable {
  let method: RequestHead.Method
  let action: Action

  enum Action: Sendable {
    /// Answers at once; a body that comes all the same is discarded.
    case respond(@Sendable (Request) -> Response)
    /// Judges the head, and then reads content of at most so many bytes.
    case read(limit: Int, @Sendable (Request) -> HeadReply)
    /// Answers at once or after a wait, and may read the content meanwhile.
    case reply(@Sendable (Request) -> Reply)
  }

  /// An operation without request content: a body that comes all the same is discarded.
  public static func get(_ respond: @escaping @Sendable (Request) -> Response) -> Operation {
    Operation(method: .get, action: .respond(respond))
  }

  /// The same, for a response that may have to be waited for.
  public static func get(reply: @escaping @Sendable (Request) -> Reply) -> Operation {
    Operation(method: .get, action: .reply(reply))
  }

  /// An operation that reads content of at most `bodyLimit` bytes, if the head gives no reason to refuse it; more is
  /// refused with 413.
  public static func post(bodyLimit: Int, judge: @escaping @Sendable (Request) -> HeadReply) -> Operation {
    Operation(method: .post, action: .read(limit: bodyLimit, judge))
  }
}

/// What a handler has to say to a request: at once, or after a wait.
public enum Reply: Sendable {
  /// The response.
  case immediate(Response)
  /// Work that waits for something, done by a task of the connection's loop. The task is cancelled when the client goes
  /// away. The `Request` is no longer there: what the work needs of it, it takes along.
  case deferred(@Sendable (RequestContext) async -> Response)
}

/// What a handler has to say to the head of a request whose content is still to be read.
public enum HeadReply: Sendable {
  /// The response, whatever the content is.
  case immediate(Response)
  /// The content is wanted. The `Request` is no longer there when it has come: what the handler needs of it, it takes along.
  case read(@Sendable (_ content: [UInt8]) -> Reply)
}

/// What work behind a request has at hand.
public struct RequestContext: Sendable {
  /// The loop that it runs on.
  public let loop: IOLoop
  /// The request's content, as it arrives. If the request has no content, the first read returns nil. The server deals
  /// with content that the handler does not read.
  public let content: any ContentReader
  /// The length of the content in bytes, if the client has said it; 0 without content.
  public let contentLength: Int?

  /// The context of one request.
  public init(loop: IOLoop, content: any ContentReader, contentLength: Int?) {
    self.loop = loop
    self.content = content
    self.contentLength = contentLength
  }
}
