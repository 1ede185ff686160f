import Access
import HTTPMessages
import HTTPServer
import HTTPTypes
import JSON

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
  /// The verdict for the page of the request; nil if the request has no `Origin`.
  var crossOrigin: CrossOriginVerdict?

  /// The content of a response.
  var json: String {
    JSONValue.object(of: [
      ("allowed", .bool(refusal == nil)), ("client", client.map { .text($0) }),
      ("status", refusal.map { .whole($0.status.code) }), ("code", refusal.map { .text($0.code.rawValue) }),
      ("reason", reason.map { .text($0.description) }), ("detail", refusal.map { .text($0.detail) }),
      ("evidence", .strings(evidence)), ("fix", fix.map { .text($0) }), ("cors", crossOrigin?.json),
    ]).ascii
  }
}

/// Whether the browser lets a page read the response (the Fetch standard, §3.3).
struct CrossOriginVerdict {
  /// The CORS fields of the response to a preflight request.
  let preflight: HTTPFields
  let response: HTTPFields
  let detail: String

  /// Returns the verdict for a request with an `Origin`; nil if it has none.
  ///
  /// - Parameter preflight: The preflight request that browsers send before it.
  init?(_ request: Request, preflight: Request, policy: AccessPolicy) {
    let crossOrigin = CrossOrigin(policy: policy)
    (self.preflight, response) = (crossOrigin.fields(preflight), crossOrigin.fields(request))
    let isReadable = response[.accessControlAllowOrigin] != nil
    switch PresentedCredentials.RequestOrigin(request, known: policy) {
    case .absent: return nil
    case .present(let origin):
      detail =
        isReadable
        ? "Pages of \(origin) may read responses, errors included."
        : "No client has the origin \(origin), so browsers hide every response from its pages."
    case .unusable:
      detail = "The Origin is not one that browsers send for a page, so it gets no CORS fields."
    }
  }

  fileprivate var json: JSONValue {
    [
      "allowed": .bool(response[.accessControlAllowOrigin] != nil), "detail": .text(detail),
      "preflight": Self.object(preflight), "response": Self.object(response),
    ]
  }

  private static func object(_ fields: HTTPFields) -> JSONValue {
    .object(of: fields.map { ($0.name.rawName, .text($0.value)) })
  }
}

extension CrossOrigin {
  fileprivate func fields(_ request: Request) -> HTTPFields {
    var response = Response(.ok)
    finish(&response, request)
    response.fields[.vary] = nil
    return response.fields
  }
}
