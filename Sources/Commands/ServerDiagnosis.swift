import Bytes
import EventLoop
import HTTP1
import HTTPClient
import HTTPMessages
import HTTPTypes
import JSON
import TokenServer

/// The checks of `doctor` on a running server, through its admin listener.
struct ServerDiagnosis {
  private static let timeouts = UpstreamTimeouts(connect: .seconds(5), firstByte: .seconds(15), whole: .seconds(20))
  /// The most bytes and JSON values of a response.
  private static let contentLimit = 65_536
  private static let mostValues = 512
  /// The most sentences of a response, and the most characters of each.
  private static let mostSentences = 32
  private static let longestSentence = 1000
  let url: HealthCheckURL
  let credential: String?
  let origin: String?
  let path: String?
  let diagnosis: Diagnosis

  func run() throws { try url.withClient(run) }

  private func run(_ client: UpstreamClient) {
    if credential == nil { diagnosis.skip(.credential, because: "--credential-file names none.") }
    if origin == nil { diagnosis.skip(.cors, because: "--origin names none.") }
    guard checkReadiness(send(UpstreamRequest(.get, "/readyz", fields: Self.fields), client)) else { return }
    guard credential != nil || origin != nil || path != nil else {
      return diagnosis.skip(.access, because: "No --credential-file, --origin or --path describes a caller.")
    }
    checkAccess(send(explanationRequest, client))
  }

  private static let fields: FieldLines = [
    .accept: "application/json", .userAgent: "musickit-token-server/\(Release.version)",
  ]

  /// The status of a response and its JSON object; nil if the content is anything else.
  private typealias Outcome = Result<(status: Int, object: JSONValue?), UpstreamError>

  private func send(_ request: UpstreamRequest, _ client: UpstreamClient) -> Outcome {
    client.reply(to: request, limits: Self.timeouts, contentLimit: Self.contentLimit).map { reply in
      let value = reply.isComplete ? JSONReader.read(reply.content, values: Self.mostValues) : nil
      return (reply.status, value?.isObject == true ? value : nil)
    }
  }

  private static let address =
    "Give the address in the server's line “Admin on …” (admin.host and admin.port), by default http://127.0.0.1:8081."

  /// Checks that the URL is that of an admin listener, and its readiness. Returns whether it is one.
  private func checkReadiness(_ outcome: Outcome) -> Bool {
    switch outcome {
    case .failure(let error):
      diagnosis.fail(
        .server, "\(url.text) does not respond. \(Self.shown(error.description))",
        fix: "Start the server. \(Self.address)")
      return false
    case .success((let status, let object)):
      guard [200, 503].contains(status), let object, object["status"]?.string != nil else {
        let said = object.flatMap(Self.errorDetail).map { ": \($0)" } ?? "."
        diagnosis.fail(
          .server, "\(url.text) is no admin listener of this program: /readyz has status \(status)\(said)",
          fix: Self.address)
        return false
      }
      guard let checks = object["checks"], checks.isObject else {
        diagnosis.fail(
          .server, "\(url.text) is the public listener, which does not explain its decisions.", fix: Self.address)
        return false
      }
      diagnosis.pass(.server, "The admin listener at \(url.text) responds.")
      judge(checks)
      return true
    }
  }

  private func judge(_ checks: JSONValue) {
    let bad = checks.members.filter { $0.value["status"]?.string != "ok" }
    guard !bad.isEmpty else {
      let names = checks.members.prefix(Self.mostSentences).map { Self.shown($0.name) }.joined(separator: ", ")
      return diagnosis.pass(.readiness, "These checks of the server pass: \(names).")
    }
    let lines = bad.prefix(Self.mostSentences).map { check in
      "\(Self.shown(check.name)): \(check.value["detail"]?.string.map(Self.sentence) ?? "no detail.") "
        + Self.advice(for: check.name)
    }
    diagnosis.fail(.readiness, lines)
  }

  /// A check of doctor may pass by then, or find no cause that only the server has, so the advice says what that means.
  private static func advice(for check: ByteString) -> String {
    switch check {
    case "token": "Set this machine's clock. If it is right, the server's log has the reason."
    case "settings": "Correct what the detail names, or restart the server with the new settings."
    case "keyRotation": "Compare the ID and the team of the next key with the developer account, then reload (SIGHUP)."
    case "appleMusic":
      local("apple-music", passes: "the cause is gone, and the server finds that out with its next requests")
    case "appleMusicQuota": "Send fewer requests, or keep responses longer (catalog.cache): the quota is the team's."
    case "identityProviders":
      local("identity-providers", passes: "the provider responds again, and the server fetches the keys soon")
    case "auditLog": "Make room on the disk of audit.file, or let the server write there."
    case "sharedStore":
      local(
        "shared-store",
        passes: "the store works: if replicas differ, give all of them the same settings and version, else "
          + "compare the server's way to the store")
    case "draining": "The server is shutting down, as a signal told it to."
    default: "The server's log has the reason."
    }
  }

  private static func local(_ check: StaticString, passes meaning: String) -> String {
    "Run doctor with the server's settings (--config) on its machine: its check \(check) has the cause. If that passes, "
      + "\(meaning)."
  }

  private var requested: String { path ?? "/token" }

  private var explanationRequest: UpstreamRequest {
    let description = JSONValue.object(of: [
      ("path", .text(requested)), ("credential", credential.map { .text($0) }), ("origin", origin.map { .text($0) }),
    ])
    let content = Array(description.ascii.utf8)
    var fields = Self.fields
    fields[.contentType] = "application/json"
    return UpstreamRequest(
      .post, ByteString(ExplainEndpoint.path.description), fields: fields, content: WholeContent(content),
      contentLength: content.count)
  }

  private func checkAccess(_ outcome: Outcome) {
    switch outcome {
    case .failure(let error): diagnosis.fail(.access, Self.shown(error.description))
    case .success((200, let object)):
      guard let explanation = object.flatMap(Explanation.init) else {
        return diagnosis.fail(
          .server, "The response to \(ExplainEndpoint.path) is not one of this version.",
          fix: "Run the doctor of the server's own version.")
      }
      judge(explanation)
    case .success((404, _)), .success((405, _)):
      diagnosis.fail(
        .server, "The server has no \(ExplainEndpoint.path): its version is older than that of this doctor.",
        fix: "Update the server, or run the doctor of its own version.")
    case .success((let status, let object)):
      let said = object.flatMap(Self.errorDetail) ?? "It does not say why."
      diagnosis.fail(.access, "The server refuses to explain (\(status)): \(said)")
    }
  }

  private func judge(_ explanation: Explanation) {
    let client = explanation.client.map { "client \($0)" }
    if let crossOrigin = explanation.crossOrigin, origin != nil {
      if crossOrigin.isAllowed {
        diagnosis.pass(.cors, crossOrigin.lines)
      } else {
        diagnosis.fail(.cors, crossOrigin.lines, fix: "Add the origin to the origins of a client in access.clients.")
      }
    }
    if credential != nil, explanation.refusesCredential {
      return diagnosis.fail(.credential, explanation.lines, fix: explanation.fix)
    }
    if credential != nil {
      if let client {
        diagnosis.pass(.credential, ["It belongs to \(client)."])
      } else {
        diagnosis.skip(.credential, because: "The server decides about this path without it.")
      }
    }
    if explanation.isAllowed {
      let subject = client.map { $0.prefix(1).uppercased() + $0.dropFirst() } ?? "Every caller"
      diagnosis.pass(.access, ["\(subject) may request \(Self.shown(requested))."] + explanation.lines)
    } else {
      diagnosis.fail(.access, explanation.lines, fix: explanation.fix)
    }
  }

  private static func errorDetail(_ object: JSONValue) -> String? {
    object["errors"]?.elements.first?["detail"]?.string.map(sentence)
  }

  private static func sentence(_ text: some CustomStringConvertible) -> String {
    let shown = shown(text)
    return shown.hasSuffix(".") ? shown : "\(shown)."
  }

  /// Returns a text of the server without what a terminal would obey, and shortened.
  private static func shown(_ text: some CustomStringConvertible) -> String {
    let scalars = text.description.unicodeScalars.prefix(longestSentence)
    return String(String.UnicodeScalarView(scalars.map { $0.isShown ? $0 : "\u{FFFD}" }))
  }

  private struct Explanation {
    let isAllowed: Bool
    let client: String?
    let refusesCredential: Bool
    let lines: [String]
    let fix: String?
    let crossOrigin: (isAllowed: Bool, lines: [String])?

    init?(_ object: JSONValue) {
      guard case .bool(let isAllowed)? = object["allowed"], case .array(let evidence)? = object["evidence"] else {
        return nil
      }
      let reasons = evidence.prefix(mostSentences).compactMap { $0.string.map(shown) }
      if isAllowed {
        (lines, refusesCredential) = (reasons, false)
      } else {
        guard case .number(let status)? = object["status"], let code = object["code"]?.string,
          let detail = object["detail"]?.string
        else { return nil }
        lines = ["The caller gets \(shown(status)) \(shown(code)): \(shown(detail))"] + reasons
        refusesCredential = [ErrorCode.invalidCredentials, .overloaded].contains { code == $0.rawValue }
      }
      self.isAllowed = isAllowed
      client = object["client"]?.string.map(shown)
      fix = object["fix"]?.string.map(shown)
      guard let cors = object["cors"] else {
        crossOrigin = nil
        return
      }
      guard case .bool(let isReadable)? = cors["allowed"], let detail = cors["detail"]?.string else { return nil }
      let fields = [("Preflight", cors["preflight"]), ("Response", cors["response"])].flatMap { name, fields in
        (fields?.members ?? []).prefix(mostSentences).map {
          "\(name): \(shown($0.name)): \(shown($0.value.string ?? ""))"
        }
      }
      crossOrigin = (isReadable, [shown(detail)] + fields)
    }
  }
}

extension Unicode.Scalar {
  /// Whether a terminal shows the scalar, and does not obey it: no control, no change of the direction of writing.
  fileprivate var isShown: Bool {
    switch properties.generalCategory {
    case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator: false
    default: true
    }
  }
}
