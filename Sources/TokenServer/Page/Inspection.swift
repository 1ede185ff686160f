import Access
import Bytes
package import DeveloperToken
import EventLoop
import Glibc
import HTTPMessages
import HTTPServer
import JSON

/// The endpoint `POST /page/inspect`: the verdicts of `inspect` on a developer token, in the content so that no log has it.
///
/// On the public listener, a caller must be a client of the settings, and its rates count. The verdict on the
/// signature says no more than the token's own `kid`, and than Apple says to everybody who holds the token.
struct InspectionEndpoint: Sendable {
  let generation: RuntimeSnapshot
  /// The rule for requests of pages to the admin listener; nil on the public one, where the gate and CORS decide.
  let rule: OwnPageRule?

  /// The maximum length of the content in bytes: room for the longest token, and for an origin.
  private static let bodyLimit = 20_480
  private static let mostValues = 4
  private static let rates = ClientRates(client: "inspections", perCaller: RateLimits.inspections, total: nil)

  private var gate: AccessGate { generation.gate }
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
        gate.reply(after: wait, context) { admitted, _ in
          .immediate(limited(context, admitted) ?? response(to: content, context, admitted))
        }
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
    return admitted.map { gate.refuse(denial, $0) } ?? denial.response.response(id: context.id)
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
    } catch {
      return admitted.map { gate.refuse(Denial(error, "invalid_request"), $0) } ?? error.response(id: context.id)
    }
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
    let key = generation.ownKeys.first { key in plain.keyID.map { $0 == "\(key.keyID)" } ?? false }
    let signed = key.map { Inspector(key: $0.verificationKey, origin: origin, now: now).inspect(token.bytes.span) }
    return InspectionReport(signed ?? plain, now: now).json
  }

  private static func origin(_ value: JSONValue?) throws(ErrorResponse) -> Origin? {
    guard let value else { return nil }
    guard case .string(let text) = value else {
      throw ErrorResponse(.invalidParameter, "origin must be a string.")
    }
    do { return try Origin(text.text) } catch { throw ErrorResponse(.invalidParameter, "\(error)") }
  }
}

/// The output of `inspect` for an inspection, and of `POST /page/inspect`.
package struct InspectionReport {
  private let inspection: Inspection
  private let now: Int

  package init(_ inspection: Inspection, now: Int) { (self.inspection, self.now) = (inspection, now) }

  /// The report for people: the content of the token, then each check, then the verdict.
  package var lines: [String] {
    var lines: [String] = []
    for (name, value) in members {
      guard let value else { continue }
      let time = value.integer.map { "  (\(distance(to: $0)))" }
      lines.append("\(padded(name, 7))\(value.ascii)\(time ?? "")")
    }
    if !lines.isEmpty { lines.append("") }
    lines += inspection.checks.map { "\(padded(word($0.verdict), 9))\(padded($0.rule, 20))\($0.explanation)" }
    return lines + ["", verdict]
  }

  /// The verdict. Only Apple knows which keys of which teams it accepts.
  private var verdict: String {
    guard inspection.isAcceptable else { return "Apple would refuse it." }
    let isSigned = inspection.checks.contains { $0.rule == "signature" && $0.verdict == .pass }
    return isSigned
      ? "The token is well-formed, and the given key signed it. Only Apple knows whether it accepts this key and team."
      : "The token is well-formed. The signature is not verified, because --key-file names no key."
  }

  /// The report for programs.
  package var json: String {
    let checks = inspection.checks.map { check -> JSONValue in
      ["rule": .text(check.rule), "verdict": .text(check.verdict.rawValue), "explanation": .text(check.explanation)]
    }
    return JSONValue.object(
      of: [("acceptable", JSONValue.bool(inspection.isAcceptable))] + members + [("checks", JSONValue.array(checks))]
    ).ascii
  }

  /// The content of the token in JSON, under the names in the token. Only times are numbers.
  private var members: [(String, JSONValue?)] {
    [
      ("alg", inspection.algorithm.map { .string($0) }), ("kid", inspection.keyID.map { .string($0) }),
      ("iss", inspection.issuer.map { .string($0) }), ("iat", inspection.issuedAt.map { .whole($0) }),
      ("exp", inspection.expiresAt.map { .whole($0) }),
      ("origin", inspection.origins.isEmpty ? nil : .array(inspection.origins.map { .string($0) })),
    ]
  }

  /// Returns the distance of `time` from now: `in 12 h`, `3 d ago`. A token may contain any number.
  private func distance(to time: Int) -> String {
    let (difference, overflow) = time.subtractingReportingOverflow(now)
    guard !overflow else { return "out of range" }
    let magnitude = difference.magnitude
    let text =
      switch magnitude {
      case ..<120: "\(magnitude) s"
      case ..<7200: "\(magnitude / 60) min"
      case ..<172_800: "\(magnitude / 3600) h"
      default: "\(magnitude / 86_400) d"
      }
    return difference < 0 ? "\(text) ago" : "in \(text)"
  }

  private func word(_ verdict: Check.Verdict) -> String {
    switch verdict {
    case .pass: "ok"
    case .fail: "FAIL"
    case .warning: "warning"
    case .unknown: "?"
    }
  }

  private func padded(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(1, width - text.count))
  }
}
