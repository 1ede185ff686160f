public import HTTPTypes
import JSON
import MusicCatalog

/// A response of the emulator, and the faults that change the way to send it.
public struct SandboxResponse: Sendable, Equatable {
  /// The status code.
  public var status: Int
  /// The field lines, without those of the message framing.
  public var fields: HTTPFields
  /// The content.
  public var content: [UInt8]
  /// The delay before the response, unless a fault demands another.
  public var latency = Duration.zero
  /// The faults of the request, some of which change how the response is sent.
  public var faults: [Fault] = []

  /// The delay before the response.
  public var delay: Duration { number(.delay).map { .milliseconds($0) } ?? latency }

  /// Returns the number of a fault, the last one of its kind; nil without such a fault.
  func number(_ kind: Fault.Kind) -> Int? { faults.last { $0.kind == kind }?.number }

  /// Creates a response.
  public init(_ status: Int, fields: HTTPFields = [:], content: [UInt8] = []) {
    (self.status, self.fields, self.content) = (status, fields, content)
  }

  /// Creates a response with a document; without content if it is nil.
  init(_ status: Int, _ document: JSONValue?, fields: HTTPFields = [:]) {
    self.init(status, fields: fields, content: document?.bytes ?? [])
    if document != nil { self.fields[.contentType] = Self.mediaType }
  }

  static let mediaType = "application/json;charset=utf-8"

  /// Creates the response of an error.
  ///
  /// - Parameter id: The identifier of this occurrence.
  init(_ error: AppleError, id: String) {
    self.init(error.status, error.document(id: id))
    fields[.allow] = error.allow
  }

  /// Apple's response to a refused developer token, which is empty.
  static let unauthorized = SandboxResponse(401)

  /// Apple's response above its rate. It is not in the documented form, and has no `Retry-After`.
  static let rateLimited = SandboxResponse(429, ["message": "API capacity exceeded"])

  /// The response to a CORS preflight request. Apple allows every page.
  static let preflight = SandboxResponse(
    200,
    fields: [
      .accessControlAllowHeaders: "Authorization, Content-Type, Music-User-Token, X-Sandbox-Fault",
      .accessControlAllowMethods: "GET, POST, PUT, PATCH, DELETE",
      .accessControlMaxAge: "600",
    ])
}
