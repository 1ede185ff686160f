import Access
import Bytes
public import CatalogProxy
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
    Route(below: Self.path, patterns: patterns, isRefusedEarly: true) { self.reply(to: $0) }
  }

  private var patterns: [RoutePattern] {
    CatalogTarget.templates.map { RoutePattern($0) }
      + (allowsMe ? CatalogTarget.userTemplates.map { RoutePattern($0, [.get, .post, .put, .patch, .delete]) } : [])
  }

  /// Responds to a request. The order of checks is path and method, with bounded cost, then identity, rate, permission.
  /// The query and the fields are parsed only for a permitted caller.
  private func reply(to request: Request) -> Reply {
    do throws(ErrorResponse) {
      let path = try path(of: request)
      guard request.method != .options else {
        return .immediate(Response(.noContent, fields: [.allow: "\(path.kind.allow)"]))
      }
      return reply(to: request, try Self.method(of: request, on: path), path)
    } catch {
      return .immediate(error.response(id: request.id))
    }
  }

  private func path(of request: Request) throws(ErrorResponse) -> CatalogPath {
    do throws(TargetDefect) {
      let slice = request.path
      let path = try CatalogPath(slice.span, allowsMe: allowsMe)
      request.route = path.route
      return path
    } catch {
      throw error.response(quoting: request.path)
    }
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
    _ = try Self.permit(destination.path, caller) { () throws(ErrorResponse) in
      try call(destination.method, destination.path, of: request)
    }
  }

  /// Returns what the server forwards for the caller, if the caller may have it. It is parsed after the path is permitted,
  /// and may want something of a user's that the catalog has.
  private static func permit(
    _ path: CatalogPath, _ caller: Principal, _ parse: () throws(ErrorResponse) -> CatalogCall
  ) throws(Denial) -> CatalogCall {
    if path.kind == .me {
      try caller.mayUseMe()
    } else {
      try caller.mayHaveCatalog(storefront: path.storefront)
    }
    let call: CatalogCall
    do throws(ErrorResponse) { call = try parse() } catch { throw Denial(error, "invalid_request") }
    if call.target.wantsUserToken, call.target.kind != .me { try caller.mayUseUserTokens() }
    return call
  }

  private func payer(of admitted: AccessGate.AuthorizedCaller) -> QuotaCaller {
    let caller = admitted.caller
    return QuotaCaller(
      client: caller.client.hashedID,
      share: caller.client.share ?? (gate.policy.catalogIsShared ? QuotaCaller.usualShare : nil),
      identity: caller.identity(at: admitted.auditContext.rateLimitPrefix).bytes)
  }

  private func reply(to request: Request, _ method: HTTPRequest.Method, _ path: CatalogPath) -> Reply {
    let auditContext = AuditContext(request)
    let admission = gate.admit(request, auditContext)
    switch consume admission {
    case .immediate(let verdict):
      return reply(to: verdict, path, on: request.loop) { (payer) throws(ErrorResponse) in
        try call(method, path, of: request, charging: payer)
      }
    case .deferred(let wait):
      // The request no longer exists after the wait.
      let parsed = Result { () throws(ErrorResponse) in try call(method, path, of: request) }
      let work = DeferredWork { [self] context in
        let verdict = await gate.admit(after: wait, auditContext, on: context.loop)
        let reply = reply(to: verdict, path, on: context.loop) { (payer) throws(ErrorResponse) in
          try parsed.get().charged(to: payer)
        }
        switch reply {
        case .immediate(let response): return response
        case .deferred(let work): return await work.perform(context)
        }
      }
      return .deferred(work)
    }
  }

  /// - Parameter payer: The caller that the quota is charged to; nil if it is not known yet.
  private func call(
    _ method: HTTPRequest.Method, _ path: CatalogPath, of request: Request, charging payer: QuotaCaller? = nil
  ) throws(ErrorResponse) -> CatalogCall {
    let target: CatalogTarget
    let query = request.query
    do throws(TargetDefect) {
      target = try CatalogTarget(path, query: query?.span, hasUserToken: request.head.hasUserToken)
    } catch { throw error.response(quoting: query ?? []) }
    return try CatalogCall(
      method, target, of: request, charging: payer, policy: service.proxy.policy,
      span: request.trace.context(service.spans?.sampler))
  }

  private func reply(
    to verdict: consuming AccessDecision, _ path: CatalogPath, on loop: IOLoop,
    _ call: (_ payer: QuotaCaller) throws(ErrorResponse) -> CatalogCall
  ) -> Reply {
    let admitted: AccessGate.AuthorizedCaller
    switch consume verdict {
    case .admitted(let value): admitted = value
    case .refused(let response): return .immediate(response)
    }
    let permitted: CatalogCall
    do throws(Denial) {
      permitted = try Self.permit(path, admitted.caller) { () throws(ErrorResponse) in try call(payer(of: admitted)) }
    } catch {
      return .immediate(gate.refuse(error, admitted))
    }
    if let refusal = gate.grant(admitted) { return .immediate(refusal) }
    if let reply = service.proxy.respondImmediately(permitted, refresh: { service.refresh(permitted, on: loop) }) {
      return .immediate(response(reply, admitted))
    }
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

    var staleResponse: Response? {
      endpoint.service.proxy.staleReply(to: call).map { endpoint.response($0, admitted) }
    }

    func start(
      _ context: RequestContext, respond: @escaping @Sendable (consuming Response) -> Void
    ) -> (any CancellableWork)? {
      endpoint.service.start(call, in: context) { respond(self.endpoint.response($0, self.admitted)) }
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
    _ method: HTTPRequest.Method, _ target: CatalogTarget, of request: Request, charging payer: QuotaCaller?,
    policy: HeaderPolicy, span: SpanContext
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
        method, target,
        caller: payer
          ?? QuotaCaller(client: HashedText(Client.anonymousID), identity: ByteString(request.client.rateLimitPrefix)),
        directives: directives, preconditions: preconditions, coding: coding, fields: fields, span: span,
        holder: request.client.holder)
    } catch {
      throw error.response
    }
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
