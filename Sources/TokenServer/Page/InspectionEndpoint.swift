import Access
import Bytes
import DeveloperToken
import EventLoop
import Glibc
import HTTPMessages
import HTTPServer
import JSON

/// The endpoint `POST /page/inspect`: the verdicts of `inspect` on a developer token, which comes in the content so that
/// no log has it.
///
/// On the public listener, a caller must be a client of the settings, and its rates count. The verdict on the
/// signature says no more than the token's own `kid`, and than Apple says to everybody who holds the token.
struct InspectionEndpoint: Sendable {
  let keys: [SigningKey]
  let gate: AccessGate
  /// The rule for requests of pages to the admin listener; nil on the public one, where the gate and CORS decide.
  let rule: OwnPageRule?

  /// The maximum length of the content in bytes: room for the longest token, and for an origin.
  private static let bodyLimit = 20_480
  private static let mostValues = 4
  private static let rates = ClientRates(client: "inspections", perCaller: RateLimits.inspections, total: nil)

  var route: Route { Route("/page/inspect", [.post(bodyLimit: Self.bodyLimit, judge: { judge($0) })]) }

  private func judge(_ request: Request) -> HeadReply {
    if let refusal = OwnPageRule.refusalWithoutJSON(request) ?? rule?.refusal(of: request) {
      return .immediate(refusal.response(id: request.id))
    }
    let context = AuditContext(request)
    guard rule == nil else { return read(context, of: nil) }
    switch gate.admit(request, context, ignoresOwnOrigin: true) {
    case .immediate(.refused(let response)): return .immediate(response)
    case .immediate(.admitted(let admitted)): return read(context, of: admitted)
    case .deferred(let wait):
      return .read { content in
        .deferred(
          DeferredWork { work in
            switch await gate.admit(after: wait, context, on: work.loop) {
            case .refused(let response): response
            case .admitted(let admitted): limited(context, admitted) ?? response(to: content, context, admitted)
            }
          })
      }
    }
  }

  private func read(_ context: AuditContext, of admitted: AccessGate.AuthorizedCaller?) -> HeadReply {
    if let response = limited(context, admitted) { return .immediate(response) }
    return .read { .immediate(response(to: $0, context, admitted)) }
  }

  /// Counts the request. Returns the response if the address has sent too many.
  private func limited(_ context: AuditContext, _ admitted: AccessGate.AuthorizedCaller?) -> Response? {
    guard
      case .limited(let limit) = gate.service.explanations.take(
        Self.rates, for: .address(context.rateLimitPrefix), now: Deadline.now.nanoseconds)
    else { return nil }
    let denial = Denial(
      .rateLimited, "rate_limited",
      "The server judges only a few tokens a second. Send the request again in \(limit.seconds) s.",
      retryAfter: limit.seconds)
    return refusal(denial, context, admitted)
  }

  private func response(
    to content: [UInt8], _ context: AuditContext, _ admitted: AccessGate.AuthorizedCaller?
  ) -> Response {
    do throws(ErrorResponse) {
      var response = Response.json(try report(on: content).utf8)
      guard let admitted else { return response }
      if let refusal = gate.grant(admitted) { return refusal }
      admitted.mark(&response)
      return response
    } catch { return refusal(Denial(error, "invalid_request"), context, admitted) }
  }

  private func refusal(
    _ denial: Denial, _ context: AuditContext, _ admitted: AccessGate.AuthorizedCaller?
  ) -> Response {
    admitted.map { gate.refuse(denial, $0) } ?? denial.response.response(id: context.id)
  }

  private func report(on content: [UInt8]) throws(ErrorResponse) -> String {
    guard let object = JSONReader.read(content, values: Self.mostValues), object.isObject,
      case .string(let token)? = object["token"]
    else { throw ErrorResponse(.malformedRequest, "The content is not a JSON object with token and origin.") }
    guard object.repeatedNames.isEmpty, object.members.allSatisfy({ $0.name == "token" || $0.name == "origin" }) else {
      throw ErrorResponse(.invalidParameter, "The content repeats a member, or has others than token and origin.")
    }
    let origin = try Self.origin(object["origin"])
    let now = Glibc.time(nil)
    let plain = Inspector(origin: origin, now: now).inspect(token.bytes.span)
    guard let key = keys.first(where: { key in plain.keyID.map { $0 == "\(key.keyID)" } ?? false }) else {
      return InspectionReport(plain, now: now).json
    }
    let inspector = Inspector(key: key.verificationKey, origin: origin, now: now)
    return InspectionReport(inspector.inspect(token.bytes.span), now: now).json
  }

  private static func origin(_ value: JSONValue?) throws(ErrorResponse) -> Origin? {
    guard let value else { return nil }
    guard case .string(let text) = value else {
      throw ErrorResponse(.invalidParameter, "origin must be a string.")
    }
    do { return try Origin(text.text) } catch { throw ErrorResponse(.invalidParameter, "\(error)") }
  }
}
