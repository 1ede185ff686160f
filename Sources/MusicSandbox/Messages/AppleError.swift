/// An error of Apple's documented shape. Codes, titles and most sentences are those that callers have reported; where
/// none are known, they follow the same pattern.
struct AppleError: Error, Sendable, Equatable {
  let status: Int
  let code: String
  let title: String
  let detail: String
  var parameter: String?
  var allow: String?

  private init(
    _ status: Int, _ code: String, _ title: String, _ detail: String, parameter: String? = nil, allow: String? = nil
  ) {
    (self.status, self.code, self.title, self.detail) = (status, code, title, detail)
    (self.parameter, self.allow) = (parameter, allow)
  }

  // MARK: 400

  static func missingParameter(_ name: String, _ detail: String? = nil) -> AppleError {
    .init(400, "40003", "Missing Parameter", detail ?? "No \(name) supplied on the request", parameter: name)
  }

  static func unknownParameter(_ name: String) -> AppleError {
    .init(400, "40004", "Invalid Parameter", "Parameter '\(name)' is not allowed", parameter: name)
  }

  static func invalidParameter(_ name: String, _ detail: String) -> AppleError {
    .init(400, "40005", "Invalid Parameter Value", detail, parameter: name)
  }

  static func invalidPath(_ detail: String) -> AppleError {
    .init(400, "40008", "Invalid Path Value", detail)
  }

  static func invalidContent(_ detail: String) -> AppleError {
    .init(400, "40007", "Invalid Request Body", detail)
  }

  /// The emulator's own: it keeps its memory bounded.
  static let libraryFull = AppleError(400, "40000", "Bad Request", "The emulator keeps no more than this for a user")

  // MARK: 403

  static let invalidUserToken = AppleError(403, "40300", "Forbidden", "Invalid authentication")

  static let noSubscription = AppleError(
    403, "40015", "Forbidden", "The user has no active subscription to Apple Music")

  // MARK: 404 and 405

  static let resourceNotFound = AppleError(
    404, "40400", "Resource Not Found", "Resource with requested id was not found")

  static func relationshipNotFound(_ name: String) -> AppleError {
    .init(404, "40403", "Resource Not Found", "No relationship found matching '\(name)'")
  }

  static func noRelatedResources(_ name: String) -> AppleError {
    .init(404, "40403", "No related resources", "No related resources found for \(name)")
  }

  static let pathNotFound = AppleError(404, "40400", "Resource Not Found", "There is no resource at this path")

  static func methodNotAllowed(_ allow: String) -> AppleError {
    .init(405, "40500", "Method Not Allowed", "The resource does not support this method", allow: allow)
  }

  // MARK: 5xx

  static func serverFault(_ status: Int) -> AppleError {
    switch status {
    case 503: .init(503, "50300", "Service Unavailable", "The service is currently unavailable")
    case 500: .init(500, "50001", "Upstream Service Error", "Unable to retrieve the resource")
    default: .init(status, "\(status)00", "Error", "A fault that was asked for")
    }
  }

  // MARK: -

  /// The answer.
  ///
  /// - Parameter id: The identifier of this occurrence.
  func answer(id: String) -> SandboxAnswer {
    let error = Document.object([
      ("id", .string(id)), ("title", .string(title)), ("detail", .string(detail)), ("status", "\(status)"),
      ("code", .string(code)), ("source", parameter.map { ["parameter": .string($0)] }),
    ])
    var answer = SandboxAnswer.json(["errors": [error]], status: status)
    if let allow { answer.fields.append(SandboxField("Allow", allow)) }
    return answer
  }
}
