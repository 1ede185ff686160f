import Bytes
public import HTTPTypes
public import Telemetry

/// A request that the server itself refuses, in Apple's error shape, so that a client parses one format.
public struct Refusal: Error, Sendable {
  /// Which kind.
  public var code: ErrorCode
  /// The status, which is that of the kind unless something speaks against it.
  public var status: HTTPResponse.Status
  /// What happened, why, and what to do: one or two sentences for the caller.
  public var detail: String
  /// Fields that go with it, such as `Allow`.
  public var fields: HTTPFields
  /// Whether the connection closes behind it.
  public var closesConnection: Bool

  /// A refusal that leaves the connection open unless told otherwise.
  public init(_ code: ErrorCode, _ detail: String, fields: HTTPFields = [:], closesConnection: Bool = false) {
    self.code = code
    status = code.status
    self.detail = detail
    self.fields = fields
    self.closesConnection = closesConnection
  }

  /// The response, with an `errors` array of one object.
  ///
  /// - Parameter id: The request's ID.
  public func response(id: RequestID) -> Response {
    var fields = self.fields
    fields[.contentType] = "application/json"
    fields[.cacheControl] = "no-store"
    fields[.xContentTypeOptions] = "nosniff"
    var body: [UInt8] = []
    body.append(contentsOf: #"{"errors":[{"id":""#.utf8)
    body.append(id)
    body.append(contentsOf: #"","status":"\#(status.code)","code":"\#(code.rawValue)","title":"#.utf8)
    body.append(jsonString: code.title)
    body.append(contentsOf: #","detail":"#.utf8)
    body.append(jsonString: detail)
    body.append(contentsOf: "}]}\n".utf8)
    var response = Response(status, fields: fields, body: body)
    response.closesConnection = closesConnection
    return response
  }
}
