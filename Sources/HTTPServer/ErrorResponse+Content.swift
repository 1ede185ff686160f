import Bytes
import HTTP1
public import HTTPMessages
import HTTPTypes
public import Tracing

extension ErrorResponse {
  /// Returns the response with an `errors` array of one object.
  /// - Parameter id: The request's ID.
  public func response(id: RequestID) -> Response {
    // Errors are most of the responses under an attack, so neither fields nor body cost more than necessary.
    var body: [UInt8] = []
    body.reserveCapacity(160 + detail.utf8.count)
    body.append(#"{"errors":[{"id":""#)
    body.append(id)
    body.append(#"","status":""#)
    body.append(decimal: status.code)
    body.append(#"","code":""#)
    body.append(utf8: code.rawValue)
    // A title has no character that JSON escapes.
    body.append(#"","title":""#)
    body.append(utf8: code.title)
    body.append(#"","detail":"#)
    body.append(jsonString: detail)
    if let replaced { body.append(meta: replaced) }
    body.append("}]}\n")
    var response = Response(status, prepared: Self.commonFields, fields: fields, body: body)
    if let replaced { response.note(replaced) }
    response.end = end
    response.shortage = shortage
    return response
  }

  /// Vary, because the fields that let a page read an error depend on its origin.
  private static let commonFields = FieldSection([
    .contentType: "application/json", .cacheControl: "no-store", .xContentTypeOptions: "nosniff", .vary: "Origin",
  ])
}

extension [UInt8] {
  /// Appends the member with what the upstream said. Every error object may have it (JSON:API 1.1, Error Objects).
  fileprivate mutating func append(meta replaced: ReplacedResponse) {
    append(#","meta":{"status":""#)
    append(decimal: replaced.status)
    append("\"")
    let members: [(StaticString, String?)] = [
      (#","code":"#, replaced.code), (#","id":"#, replaced.id), (#","title":"#, replaced.title),
      (#","correlationKey":"#, replaced.correlationKey), (#","requestUUID":"#, replaced.requestUUID),
      (#","retryAfter":"#, replaced.retryAfter),
    ]
    for (name, value) in members {
      guard let value else { continue }
      append(name)
      append(jsonString: value)
    }
    append("}")
  }
}

/// The errors that end a connection: the one place that maps causes below the routes to responses.
extension ErrorResponse {
  /// Creates the response to a head or a chunked body that the codec refused. `part` is what is refused, safe to quote.
  init(_ error: RequestError, showing part: String? = nil) {
    let code = ErrorCode.allCases.first { $0.status == error.status } ?? .malformedRequest
    self.init(code, part.map { "\(error.reason) It is \($0)." } ?? error.reason, end: .message)
  }

  static let headTimeout = ErrorResponse(.requestTimeout, "The header section did not arrive in time.", end: .message)
  static let bodyTimeout = ErrorResponse(.requestTimeout, "The content did not arrive in time.", end: .message)
  static let workTimeout = ErrorResponse(
    .upstreamTimeout, "The response took longer than the server's limit.", end: .message)
  static let draining = ErrorResponse(
    .draining, "The server is shutting down. Send the request again in 1 s.", retryAfter: 1, end: .connection,
    shortage: .draining)
  static let overMemory = ErrorResponse(
    .overloaded, "The server has reached its memory limit. Send the request again in 1 s.", retryAfter: 1,
    end: .connection, shortage: .memory)
  static let overBusy = ErrorResponse(
    .overloaded, "The server has more requests than it can serve in time. Send the request again in 1 s.",
    retryAfter: 1, shortage: .processorTime)
  static let plaintextOnTLS = ErrorResponse(
    .malformedRequest, "This port speaks HTTPS: use https:// instead of http://.", end: .message)

  static func contentTooLarge(_ limit: Int) -> ErrorResponse {
    ErrorResponse(.contentTooLarge, "The content is longer than this path's limit of \(limit) bytes.", end: .message)
  }
}
