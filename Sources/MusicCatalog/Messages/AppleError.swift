package import JSON

/// An error in Apple's documented form. Callers have reported the codes, the titles and most sentences; the rest follow
/// the same pattern.
package struct AppleError: Error, Sendable, Equatable {
  package let status: Int
  let code: String
  let title: String
  let detail: String
  var parameter: String?
  package var allow: String?

  private init(
    _ status: Int, _ code: String, _ title: String, _ detail: String, parameter: String? = nil, allow: String? = nil
  ) {
    (self.status, self.code, self.title, self.detail) = (status, code, title, detail)
    (self.parameter, self.allow) = (parameter, allow)
  }

  package static func missingParameter(_ name: String, _ detail: String? = nil) -> AppleError {
    .init(400, "40003", "Missing Parameter", detail ?? "No \(name) supplied on the request", parameter: name)
  }

  package static func unknownParameter(_ name: String) -> AppleError {
    .init(400, "40004", "Invalid Parameter", "Parameter '\(name)' is not allowed", parameter: name)
  }

  package static func invalidParameter(_ name: String, _ detail: String) -> AppleError {
    .init(400, "40005", "Invalid Parameter Value", detail, parameter: name)
  }

  package static func invalidContent(_ detail: String) -> AppleError {
    .init(400, "40007", "Invalid Request Body", detail)
  }

  package static func invalidPath(_ detail: String) -> AppleError {
    .init(400, "40008", "Invalid Path Value", detail)
  }

  /// The error for the lyrics of a song, which only Apple's own programs may fetch.
  package static let noLyrics = AppleError(
    400, "40012", "Insufficient Privileges", "Lyrics need a privilege that the developer does not have")

  /// An error of the emulator only, which bounds its memory.
  package static let libraryFull = AppleError(
    400, "40000", "Bad Request", "The library of the user is full: the emulator stores no more")

  /// The error for a change of a library resource. Apple documents none, and clients report 401.
  package static let unchangeable = AppleError(
    401, "40100", "Unauthorized",
    "Apple Music API cannot change or delete what is in a library. The fault library-changes lets the emulator do it")

  package static let invalidUserToken = AppleError(403, "40300", "Forbidden", "Invalid authentication")

  package static let noSubscription = AppleError(
    403, "40015", "Forbidden", "The user has no active subscription to Apple Music")

  package static let resourceNotFound = AppleError(
    404, "40400", "Resource Not Found", "Resource with requested id was not found")

  package static func noRelatedResources(_ name: String) -> AppleError {
    .init(404, "40403", "No related resources", "No related resources found for \(name)")
  }

  package static let pathNotFound = AppleError(404, "40400", "Resource Not Found", "There is no resource at this path")

  package static func methodNotAllowed(_ allow: String) -> AppleError {
    .init(405, "40500", "Method Not Allowed", "The resource does not support this method", allow: allow)
  }

  package static func serverFault(_ status: Int) -> AppleError {
    switch status {
    case 503: .init(503, "50300", "Service Unavailable", "The service is currently unavailable")
    case 500: .init(500, "50001", "Upstream Service Error", "Unable to retrieve the resource")
    default: .init(status, "\(status)00", "Error", "A fault that the request or the settings demand")
    }
  }

  /// Returns the error object.
  ///
  /// - Parameter id: The identifier of this occurrence.
  package func document(id: String) -> JSONValue {
    let error = JSONValue.object(of: [
      ("id", .text(id)), ("title", .text(title)), ("detail", .text(detail)), ("status", "\(status)"),
      ("code", .text(code)), ("source", parameter.map { ["parameter": .text($0)] }),
    ])
    return ["errors": [error]]
  }
}
