import Access
import Bytes
import CatalogProxy
import EventLoop
import HTTP1
import HTTPCache
import HTTPMessages
public import HTTPServer
import HTTPTypes
import Tracing
import UpstreamAdmission

/// The endpoint for all paths under `/v1/`: Apple's responses, fetched with a developer token that no caller sees.
final class CatalogEndpoint: Sendable {
  let service: CatalogService
  let gate: AccessGate
  let allowsMe: Bool

  init(service: CatalogService, gate: AccessGate, allowsMe: Bool) {
    (self.service, self.gate, self.allowsMe) = (service, gate, allowsMe)
  }

  static let path: StaticString = "/v1/"

  var route: Route {
    let ofUsers = CatalogTarget.userTemplates.map { RoutePattern($0, [.get, .post, .put, .patch, .delete]) }
    let patterns = CatalogTarget.templates.map { RoutePattern($0) } + (allowsMe ? ofUsers : [])
    return Route(below: Self.path, patterns: patterns, isRefusedEarly: true) { self.reply(to: $0) }
  }

  /// Checks path and method, with bounded cost, then identity, rate and permission. Parses the rest for callers
  /// that are permitted, or that wait for the verdict.
  private func reply(to request: Request) -> Reply {
    let destination: Destination
    do throws(ErrorResponse) {
      let path = try path(of: request)
      guard request.method != .options else {
        return .immediate(Response(.noContent, fields: [.allow: "\(path.kind.allow)"]))
      }
      destination = (try Self.method(of: request, on: path), path)
    } catch { return .immediate(error.response(id: request.id)) }
    let auditContext = AuditContext(request)
    let admission = gate.admit(request, auditContext)
    switch consume admission {
    case .immediate(.refused(let response)): return .immediate(response)
    case .immediate(.admitted(let admitted)):
      return reply(to: admitted, destination.path, on: request.loop) { () throws(ErrorResponse) in
        try call(destination, of: request)
      }
    case .deferred(let wait):
      // The request no longer exists after the wait.
      let parsed = Result { () throws(ErrorResponse) in try call(destination, of: request) }
      return gate.reply(after: wait, auditContext) { [self] admitted, context in
        reply(to: admitted, destination.path, on: context.loop, parsed.get)
      }
    }
  }

  private func path(of request: Request) throws(ErrorResponse) -> CatalogPath {
    let slice = request.path
    do throws(TargetDefect) {
      let path = try CatalogPath(slice.span, allowsMe: allowsMe)
      request.route = path.route
      return path
    } catch { throw error.response(quoting: slice) }
  }

  private static func method(of request: Request, on path: CatalogPath) throws(ErrorResponse) -> HTTPRequest.Method {
    guard let method = request.method.forwarded, path.kind.allows(method) else {
      let allow = path.kind.allow
      throw ErrorResponse(.methodNotAllowed, "This path supports \(allow).", fields: [.allow: "\(allow)"])
    }
    return method
  }

  typealias Destination = (method: HTTPRequest.Method, path: CatalogPath)

  /// Returns the destination of a request, and sets its route. Throws the error if the server forwards it for no caller.
  func destination(of request: Request) throws(ErrorResponse) -> Destination {
    let path = try path(of: request)
    return (try Self.method(of: request, on: path), path)
  }

  /// Checks whether the server forwards a request for the caller, and forwards nothing.
  func check(_ caller: Principal, _ request: Request, to destination: Destination) throws(Denial) {
    _ = try Self.permit(destination.path, caller) { () throws(ErrorResponse) in try call(destination, of: request) }
  }

  /// Returns what the server forwards for the caller, parsed after the path is permitted. It may want more of a user's.
  private static func permit(
    _ path: CatalogPath, _ caller: Principal, _ parse: () throws(ErrorResponse) -> CatalogCall
  ) throws(Denial) -> CatalogCall {
    if path.kind == .me { try caller.mayUseMe() } else { try caller.mayHaveCatalog(storefront: path.storefront) }
    let call: CatalogCall
    do throws(ErrorResponse) { call = try parse() } catch { throw Denial(error, "invalid_request") }
    if call.target.wantsUserToken, call.target.kind != .me { try caller.mayUseUserTokens() }
    return call
  }

  /// The caller that the quota is charged to.
  private func payer(of admitted: AccessGate.AuthorizedCaller) -> QuotaCaller {
    let client = admitted.caller.client
    return QuotaCaller(
      client: client.hashedID, share: client.share ?? (gate.policy.catalogIsShared ? QuotaCaller.usualShare : nil),
      identity: admitted.caller.identity(at: admitted.auditContext.rateLimitPrefix).bytes)
  }

  private func call(_ destination: Destination, of request: Request) throws(ErrorResponse) -> CatalogCall {
    let target: CatalogTarget
    let query = request.query
    do throws(TargetDefect) {
      target = try CatalogTarget(destination.path, query: query?.span, hasUserToken: request.head.hasUserToken)
    } catch { throw error.response(quoting: query ?? []) }
    return try CatalogCall(
      destination.method, target, of: request, policy: service.proxy.policy,
      span: request.trace.context(service.spans?.sampler))
  }

  private func reply(
    to admitted: AccessGate.AuthorizedCaller, _ path: CatalogPath, on loop: IOLoop,
    _ call: () throws(ErrorResponse) -> CatalogCall
  ) -> Reply {
    let permitted: CatalogCall
    do throws(Denial) {
      permitted = try Self.permit(path, admitted.caller, call)
    } catch { return .immediate(gate.refuse(error, admitted)) }
    if let refusal = gate.grant(admitted) { return .immediate(refusal) }
    let stored = service.proxy.respondImmediately(permitted) {
      service.refresh(permitted, for: payer(of: admitted), on: loop)
    }
    if let stored { return .immediate(response(stored, admitted)) }
    let waiting = WaitingCaller(permitted, admitted, of: self)
    return .deferred(DeferredWork(instead: { waiting.staleResponse }, begin: { waiting.start($0, respond: $1) }))
  }

  /// A caller that waits for Apple. An object, because each function that needs it then keeps one reference.
  private final class WaitingCaller: Sendable {
    private let endpoint: CatalogEndpoint
    private let call: CatalogCall
    private let admitted: AccessGate.AuthorizedCaller

    init(_ call: CatalogCall, _ admitted: AccessGate.AuthorizedCaller, of endpoint: CatalogEndpoint) {
      (self.call, self.admitted, self.endpoint) = (call, admitted, endpoint)
    }

    var staleResponse: Response? { endpoint.service.proxy.staleReply(to: call).map { endpoint.response($0, admitted) } }

    func start(
      _ context: RequestContext, respond: @escaping @Sendable (consuming Response) -> Void
    ) -> (any CancellableWork)? {
      endpoint.service.start(call, for: endpoint.payer(of: admitted), in: context) {
        respond(self.endpoint.response($0, self.admitted))
      }
    }
  }

  private func response(_ reply: consuming CatalogReply, _ admitted: AccessGate.AuthorizedCaller) -> Response {
    var response =
      switch consume reply {
      case .response(let response): response
      case .failure(let error): error.response(id: admitted.auditContext.id)
      case .cancelled:
        // The caller is gone and does not read this response.
        ErrorResponse(.internalError, "The server cancelled the request.", end: .message).response(
          id: admitted.auditContext.id)
      }
    // A response that any cache may store must not contain one caller's limit.
    admitted.mark(&response, showsLimit: !gate.policy.catalogIsPublic)
    return response
  }
}

extension CatalogCall {
  /// Copies the parts of a request that the server may forward.
  fileprivate convenience init(
    _ method: HTTPRequest.Method, _ target: CatalogTarget, of request: Request, policy: HeaderPolicy, span: SpanContext
  ) throws(ErrorResponse) {
    var directives = RequestDirectives()
    var preconditions = Preconditions()
    var coding = ContentCoding.identity
    if target.isStorable {
      request.forEach("cache-control") { directives.add(cacheControl: $0) }
      request.forEach("pragma") { directives.add(pragma: $0) }
      request.forEach("if-none-match") { preconditions.add(ifNoneMatch: $0) }
      request.forEach("if-modified-since") { preconditions.add(ifModifiedSince: $0) }
    }
    request.forEach("accept-encoding") { coding = ContentCoding.preferred(acceptEncoding: $0) }
    do throws(FieldRefusal) {
      let fields = try policy.requestFields(
        for: target, from: request, hasContent: request.head.framing != .none, acceptsGzip: coding == .gzip)
      self.init(
        method, target, directives: directives, preconditions: preconditions, coding: coding, fields: fields,
        span: span, holder: request.client.holder)
    } catch { throw error.response }
  }
}

extension Request: RequestFields {}

extension RequestHead.Method {
  /// The method for the upstream; nil if the server never forwards it.
  fileprivate var forwarded: HTTPRequest.Method? {
    switch self {
    case .get: .get
    case .head: .head
    case .post: .post
    case .put: .put
    case .patch: .patch
    case .delete: .delete
    case .connect, .options, .trace, .other: nil
    }
  }
}
