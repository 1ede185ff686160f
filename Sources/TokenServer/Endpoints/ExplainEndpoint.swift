import Access
import Bytes
import EventLoop
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes
import JSON
import Telemetry
import Tracing

/// The admin endpoint `POST /access/explain`: what the server would decide about a request, and why.
///
/// It decides by the code of the public listener, on a request that it makes from the description. It counts nothing,
/// makes no token and sends Apple nothing. Like every request with an unknown `kid`, it may make the server fetch the
/// keys of an identity provider.
package struct ExplainEndpoint: Sendable {
  let gate: AccessGate
  let publicRouter: Router
  let token: TokenEndpoint
  let catalog: CatalogEndpoint?
  let limits: HTTP1Limits

  package static let path: StaticString = "/access/explain"
  /// The maximum length of the description in bytes: room for the longest JWT, with escapes.
  private static let bodyLimit = 40_960
  private static let rates = ClientRates(client: "explanations", perCaller: nil, total: RateLimits.explanations)

  func route(_ rule: OwnPageRule) -> Route {
    Route(Self.path, [.post(bodyLimit: Self.bodyLimit, judge: { judge($0, rule) })])
  }

  private func judge(_ request: Request, _ rule: OwnPageRule) -> HeadReply {
    if let refusal = refusal(of: request, rule) { return .immediate(refusal.response(id: request.id)) }
    let auditContext = AuditContext(request)
    return .read { content in
      let work = DeferredWork { context in
        do throws(ErrorResponse) {
          return try await response(to: content, auditContext, on: context.loop)
        } catch {
          return error.response(id: auditContext.id)
        }
      }
      return .deferred(work)
    }
  }

  /// Returns the error for a request that is not the operator's own, or one too many. A page of another site, which a
  /// browser on this network shows, could otherwise learn whether a credential is valid.
  private func refusal(of request: Request, _ rule: OwnPageRule) -> ErrorResponse? {
    if let refusal = OwnPageRule.refusalWithoutJSON(request) ?? rule.refusal(of: request) { return refusal }
    guard
      case .limited(let limit) = gate.service.explanations.take(
        Self.rates, for: .address(""), now: Deadline.now.nanoseconds)
    else { return nil }
    return ErrorResponse(
      .rateLimited, "The server explains only a few decisions a second. Send the request again in \(limit.seconds) s.",
      retryAfter: limit.seconds)
  }

  private func response(
    to content: [UInt8], _ auditContext: AuditContext, on loop: IOLoop
  ) async throws(ErrorResponse) -> Response {
    let described = try DescribedRequest(content)
    let client = try client(of: described)
    var explanation = AccessExplanation()
    do throws(Denial) {
      try await explain(described, of: client, &explanation, auditContext.trace, loop)
      gate.recordExplanation(client: explanation.client, nil, auditContext)
    } catch {
      explanation.fix = error.fix
      gate.recordExplanation(client: explanation.client, error, auditContext)
    }
    return .json(explanation.json.utf8)
  }

  private func client(of described: DescribedRequest) throws(ErrorResponse) -> Client? {
    guard let id = described.client else { return nil }
    guard let client = (gate.policy.clients + [gate.policy.anonymous].compactMap { $0 }).first(where: { id == $0.id })
    else { throw ErrorResponse(.invalidParameter, "No client has the id that client names.") }
    return client
  }

  /// Makes the decision in the order of the public listener: head, path and method, identity, permission.
  ///
  /// - Throws: The denial, after it has completed the explanation.
  private func explain(
    _ described: DescribedRequest, of client: Client?, _ explanation: inout AccessExplanation, _ trace: RequestTrace,
    _ loop: IOLoop
  ) async throws(Denial) {
    let request: Request
    let destination: CatalogEndpoint.Destination?
    do throws(ErrorResponse) {
      request = try Request(head: described.head, limits: limits, trace: trace, loop: loop)
      let preflight = try Request(head: described.preflightHead, limits: limits, trace: trace, loop: loop)
      let routed = Result { () throws(ErrorResponse) in try self.destination(of: request) }
      // This sets its route. A preflight request needs no operation of its path.
      _ = try? self.destination(of: preflight)
      explanation.crossOrigin = CrossOrigin(policy: gate.policy).verdict(on: request, preflight: preflight)
      destination = try routed.get()
    } catch {
      explanation.refusal = error
      throw Denial(error, "invalid_request")
    }
    guard destination != nil || request.hasPath("/token") else {
      explanation.evidence = ["Every caller may request this path, without a credential."]
      return
    }
    if gate.policy.clients.isEmpty, described.hasCredential {
      explanation.evidence = ["The server has no clients, so it ignores every credential."]
    }
    let presented = PresentedCredentials(request, to: gate.policy, certificate: described.certificate) { token in
      gate.isOwn(token, AuditContext(request))
    }
    do throws(Denial) {
      let caller =
        if let client { try gate.policy.identify(holderOf: client, presented.origin) } else {
          try await gate.identify(presented, AuditContext(request))
        }
      explanation.client = caller.client.id
      if let catalog, let destination {
        try catalog.check(caller, request, to: destination)
      } else {
        try token.check(caller, request)
      }
    } catch {
      explanation.client = explanation.client ?? error.client
      explanation.refusal = AccessGate.errorResponse(error, AuditContext(request))
      explanation.reason = error.reason
      explanation.evidence += gate.particulars(of: error, presented)
      throw error
    }
  }

  /// Returns the destination in the catalog; nil for a path of the server's own. Sets the request's route.
  ///
  /// - Throws: The error if no caller may request the path by this method.
  private func destination(of request: Request) throws(ErrorResponse) -> CatalogEndpoint.Destination? {
    if let refusal = publicRouter.refusal(of: request) { throw refusal }
    guard let catalog, let route = request.route, route.isSame(as: CatalogEndpoint.path) else { return nil }
    return try catalog.destination(of: request)
  }
}

/// The decision about a request that an operator describes, and its reason. It contains no credential.
struct AccessExplanation {
  /// The client that the request belongs to; nil if it belongs to no client, or its path needs none.
  var client: String?
  /// The error that the caller gets; nil if the server grants the request.
  var refusal: ErrorResponse?
  /// The word for the refusal in the audit log.
  var reason: StaticString?
  /// Facts for the operator only, a sentence each.
  var evidence: [String] = []
  /// What the operator can do about the refusal; nil if there is nothing, or the error says it.
  var fix: String?
  /// Whether the browser lets a page read the response; nil if the request has no `Origin`.
  var crossOrigin: JSONValue?

  var json: String {
    JSONValue.object(of: [
      ("allowed", .bool(refusal == nil)), ("client", client.map { .text($0) }),
      ("status", refusal.map { .whole($0.status.code) }), ("code", refusal.map { .text($0.code.rawValue) }),
      ("reason", reason.map { .text($0.description) }), ("detail", refusal.map { .text($0.detail) }),
      ("evidence", .strings(evidence)), ("fix", fix.map { .text($0) }), ("cors", crossOrigin),
    ]).ascii
  }
}

extension CrossOrigin {
  /// Returns whether the browser lets a page read the response (the Fetch standard, §3.3), with the fields of both
  /// responses; nil if the request has no `Origin`.
  ///
  /// - Parameter preflight: The preflight request that browsers send before it.
  fileprivate func verdict(on request: Request, preflight: Request) -> JSONValue? {
    let response = fields(request)
    let isReadable = response[.accessControlAllowOrigin] != nil
    let detail: String
    switch PresentedCredentials.RequestOrigin(request, known: policy) {
    case .absent: return nil
    case .present(let origin):
      detail =
        isReadable
        ? "Pages of \(origin) may read responses, errors included."
        : "No client has the origin \(origin), so browsers hide every response from its pages."
    case .unusable: detail = "The Origin is not one that browsers send for a page, so it gets no CORS fields."
    }
    return [
      "allowed": .bool(isReadable), "detail": .text(detail), "preflight": Self.object(fields(preflight)),
      "response": Self.object(response),
    ]
  }

  private func fields(_ request: Request) -> HTTPFields {
    var response = Response(.ok)
    finish(&response, request)
    response.fields[.vary] = nil
    return response.fields
  }

  private static func object(_ fields: HTTPFields) -> JSONValue {
    .object(of: fields.map { ($0.name.rawName, .text($0.value)) })
  }
}
