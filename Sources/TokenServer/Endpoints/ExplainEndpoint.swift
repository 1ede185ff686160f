import Access
import Bytes
import EventLoop
import Glibc
import HTTP1
import HTTPMessages
import HTTPServer
import HTTPTypes
import JSON
import TLS
import Telemetry
import Tracing

/// The admin endpoint `POST /access/explain`: what the server would decide about a request, and why.
///
/// It decides by the code of the public listener, on a request that it makes from the description. It counts nothing,
/// makes no token and sends Apple nothing. An unknown `kid` may make the server fetch the keys of an identity provider.
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
      .deferred(
        DeferredWork { context in
          do throws(ErrorResponse) { return try await response(to: content, auditContext, on: context.loop) } catch {
            return error.response(id: auditContext.id)
          }
        })
    }
  }

  /// Returns the error for one request too many, or for one of another site's page, which could learn what is valid.
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
    var denial: Denial?
    do throws(Denial) { try await explain(described, of: client, &explanation, auditContext.trace, loop) } catch {
      denial = error
      explanation.fix = error.fix
    }
    gate.recordExplanation(client: explanation.client, denial, auditContext)
    return .json(explanation.json.utf8)
  }

  private func client(of described: DescribedRequest) throws(ErrorResponse) -> Client? {
    guard let id = described.client else { return nil }
    guard let client = (gate.policy.clients + [gate.policy.anonymous].compactMap { $0 }).first(where: { id == $0.id })
    else { throw ErrorResponse(.invalidParameter, "No client has the id that client names.") }
    return client
  }

  /// Decides in the order of the public listener: head, path and method, identity, permission. Throws the denial.
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
    let auditContext = AuditContext(request, isDescribed: true)
    let presented = PresentedCredentials(request, to: gate.policy, certificate: described.certificate) { token in
      gate.isOwn(token, auditContext)
    }
    do throws(Denial) {
      let caller =
        if let client { try gate.policy.identify(holderOf: client, presented.origin) } else {
          try await gate.identify(presented, auditContext)
        }
      explanation.client = caller.client.id
      if let catalog, let destination {
        try catalog.check(caller, request, to: destination)
      } else {
        try token.check(caller, request)
      }
    } catch {
      explanation.client = explanation.client ?? error.client
      explanation.refusal = AccessGate.errorResponse(error, auditContext)
      explanation.reason = error.reason
      explanation.evidence += gate.policy.particulars(
        of: error, presented, now: Glibc.time(nil), keys: gate.keys.present)
      throw error
    }
  }

  /// Returns the destination in the catalog; nil for a path of the server itself. Sets the request's route.
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
  /// Returns whether a page may read the response (the Fetch standard, §3.3), with all fields; nil without an `Origin`.
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

/// A request that an operator describes: a JSON object whose members are these properties, all optional.
private struct DescribedRequest {
  private var method = ByteString("GET")
  private var path = ByteString("/token")
  /// The API key or JWT after `Authorization: Bearer`.
  private var credential: ByteString?
  /// The names that the server uses of the verified TLS client certificate; nil without a certificate.
  private var certificateNames: [SubjectName]?
  private var origin: ByteString?
  /// The ID of a client whose valid credential the request has, in place of the credential itself; nil without one.
  private(set) var client: ByteString?

  private static let members = "method, path, credential, certificateNames, client and origin"
  private static let methods: [ByteString] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
  private static let mostValues = 512

  /// Throws the error for the operator. It quotes no value.
  init(_ content: [UInt8]) throws(ErrorResponse) {
    guard let object = JSONReader.read(content, values: Self.mostValues), object.isObject else {
      throw ErrorResponse(
        .malformedRequest, "The content is not a JSON object with \(Self.members), or has too many values.")
    }
    guard object.repeatedNames.isEmpty else { throw ErrorResponse(.invalidParameter, "The content repeats a member.") }
    for member in object.members { try set(member.name, to: member.value) }
    guard client == nil || !hasCredential else {
      throw ErrorResponse(.invalidParameter, "client stands for a credential, so leave the credential out.")
    }
  }

  private mutating func set(_ name: ByteString, to value: JSONValue) throws(ErrorResponse) {
    switch name {
    case "method":
      method = try Self.text(value, name)
      guard Self.methods.contains(method) else {
        let methods = Self.methods.map(\.text).joined(separator: ", ")
        throw ErrorResponse(.invalidParameter, "method must be one of \(methods).")
      }
    case "path":
      path = try Self.text(value, name)
      guard path.bytes.first == UInt8(ascii: "/"), path.bytes.allSatisfy({ (0x21...0x7E).contains($0) }) else {
        throw ErrorResponse(.invalidParameter, "path must begin with / and have visible ASCII characters only.")
      }
    case "credential": credential = try Self.text(value, name)
    case "client": client = try Self.text(value, name)
    case "origin": origin = try Self.text(value, name)
    case "certificateNames": certificateNames = try Self.names(value)
    default:
      throw ErrorResponse(
        .invalidParameter, "The member \(Printable.quote(name, limit: 40)) is unknown. Write \(Self.members).")
    }
  }

  /// Returns a string that is safe as the value of a field line: without control characters, it cannot end the line.
  private static func text(_ value: JSONValue, _ name: ByteString) throws(ErrorResponse) -> ByteString {
    guard case .string(let text) = value, text.bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
      throw ErrorResponse(.invalidParameter, "\(name) must be a string without control characters.")
    }
    return text
  }

  /// Returns the names that the server uses of a certificate with these: none if one is malformed, or if they are too many.
  private static func names(_ value: JSONValue) throws(ErrorResponse) -> [SubjectName] {
    guard case .array(let elements) = value else { throw notNames }
    var names: [SubjectName?] = []
    for element in elements {
      guard case .string(let text) = element else { throw notNames }
      names.append(text.isASCII ? SubjectName(ofCertificate: text.text) : nil)
    }
    let usable = names.compactMap(\.self)
    return usable.count == names.count && names.count <= ClientCertificate.mostNames ? usable : []
  }

  private static let notNames = ErrorResponse(
    .invalidParameter,
    "certificateNames must be an array of alternative names of a certificate, such as spiffe://example.com/partner.")

  var hasCredential: Bool { credential != nil || certificate != nil }
  var certificate: PresentedCredentials.Credential? { certificateNames.map { .certificate($0) } }
  var head: [UInt8] { head(method, [credential.map { ("Authorization", "Bearer \($0)") }, originLine]) }

  /// The head of the preflight request that a browser sends before it.
  var preflightHead: [UInt8] { head("OPTIONS", [originLine, ("Access-Control-Request-Method", method)]) }

  private typealias FieldLine = (name: StaticString, value: ByteString)

  private var originLine: FieldLine? { origin.map { ("Origin", $0) } }

  private func head(_ method: ByteString, _ fields: [FieldLine?]) -> [UInt8] {
    // Every listener serves the name localhost.
    var head = method.bytes + " ".utf8 + path.bytes + " HTTP/1.1\r\nHost: localhost\r\n".utf8
    for field in fields.compactMap(\.self) { head += "\(field.name): ".utf8 + field.value.bytes + "\r\n".utf8 }
    return head + "\r\n".utf8
  }
}
