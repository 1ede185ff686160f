import CatalogProxy
import DeveloperToken
import HTTP1
import HTTPServer
import HTTPTypes
import Telemetry

/// Everything under `/v1/`: Apple's answers, fetched with a developer token that no caller sees.
struct CatalogEndpoint: Sendable {
  let service: CatalogService
  let policy: AnonymousPolicy
  /// Whether `/v1/me` is forwarded.
  let allowsMe: Bool

  var route: Route {
    Route(below: "/v1/") { reply(to: $0) }
  }

  private func reply(to request: Request) -> Reply {
    do throws(Refusal) {
      let call = try call(for: request)
      guard let call else { return .now(Response(.noContent, fields: [.allow: "\(try target(of: request).allow)"])) }
      let id = request.id
      let loop = request.loop
      if let reply = service.proxy.answerAtOnce(call, revalidate: { service.revalidate(call, on: loop) }) {
        return .now(Self.response(reply, id: id))
      }
      return .later { context in
        Self.response(await service.answer(call, in: context), id: id)
      }
    } catch {
      return .now(error.response(id: request.id))
    }
  }

  /// What is asked for; nil for OPTIONS, which is the server's own.
  private func call(for request: Request) throws(Refusal) -> CatalogCall? {
    let target = try target(of: request)
    request.route = target.route
    guard request.method != .options else { return nil }
    guard let method = request.method.forwarded, target.allows(method) else {
      throw Refusal(
        .methodNotAllowed, "This path answers \(target.allow).", fields: [.allow: "\(target.allow)"])
    }
    try policy.admitCatalog(RequestOrigin(request), me: target.kind == .me)
    return try CatalogCall(method, target, of: request, policy: service.proxy.policy)
  }

  private func target(of request: Request) throws(Refusal) -> CatalogTarget {
    // A user's token goes along only for those who may use it; /v1/me has a refusal of its own.
    let allowsMe = self.allowsMe && (policy.settings.me || request.path.starts(with: "/v1/me".utf8))
    do throws(TargetRefusal) {
      let path = Array(request.path)
      guard let query = request.query.map({ Array($0) }) else {
        return try CatalogTarget(path: path.span, query: nil, allowsMe: allowsMe)
      }
      return try CatalogTarget(path: path.span, query: query.span, allowsMe: allowsMe)
    } catch {
      throw Refusal(error.status == .notFound ? .notFound : .malformedRequest, error.detail)
    }
  }

  private static func response(_ reply: CatalogReply, id: RequestID) -> Response {
    switch reply {
    case .answer(let answer):
      var response = Response(
        answer.status, prepared: answer.prepared, fields: answer.fields, body: answer.body)
      response.stream = answer.stream
      response.streamLength = answer.streamLength
      return response
    case .failure(let failure, let status):
      return Refusal(failure, status).response(id: id)
    case .cancelled:
      // Nobody is there to read it.
      return Refusal(.internalError, "The request was given up.", closesConnection: true).response(id: id)
    }
  }
}

extension CatalogCall {
  /// Takes from a request what may go along.
  fileprivate init(
    _ method: HTTPRequest.Method, _ target: CatalogTarget, of request: Request, policy: HeaderPolicy
  ) throws(Refusal) {
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
        for: target, from: CallerFields(request: request), hasContent: request.head.framing != .none,
        acceptsGzip: coding == .gzip)
      self.init(
        method, target, caller: QuotaCaller(client: "anonymous", subscriber: request.subscriber),
        directives: directives, preconditions: preconditions, coding: coding, fields: fields)
    } catch {
      throw Refusal(.malformedRequest, error.detail)
    }
  }
}

/// A caller's fields, as the header policy asks for them.
private struct CallerFields: RequestFields {
  let request: Request

  func value(of lowercaseName: StaticString) -> RequestFieldValue {
    switch request.field(lowercaseName) {
    case .absent: .absent
    case .single(let value): .single(value)
    case .repeated: .repeated
    }
  }
}

extension RequestHead.Method {
  /// The method as it is sent on, if it is ever.
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

extension Refusal {
  fileprivate init(_ failure: UpstreamFailure, _ status: CacheStatus?) {
    var fields: HTTPFields = [.proxyStatus: failure.proxyStatus.fieldValue]
    if let retryAfter = failure.retryAfter { fields[.retryAfter] = "\(retryAfter)" }
    if let status { fields[.cacheStatus] = status.fieldValue }
    self.init(ErrorCode(failure.code), failure.detail, fields: fields)
  }
}

extension ErrorCode {
  fileprivate init(_ code: UpstreamFailure.Code) {
    self =
      switch code {
      case .upstreamError: .upstreamError
      case .upstreamTimeout: .upstreamTimeout
      case .overloaded: .overloaded
      case .rateLimited: .upstreamRateLimited
      case .tokenRejected: .developerTokenRejected
      case .noSigningKey: .noSigningKey
      }
  }
}
