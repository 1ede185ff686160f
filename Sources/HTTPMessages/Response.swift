public import HTTP1
public import HTTPTypes

/// A response to one request. `Date`, `Content-Length`, `Connection` and `X-Request-ID` are the server's to add.
public struct Response: Sendable {
  /// Its status.
  public var status: HTTPResponse.Status
  /// Header fields that it shares with many others, written once.
  public var prepared: FieldSection
  /// Its other header fields.
  public var fields: HTTPFields
  /// Its content; left out on the wire for `HEAD` and for statuses that have none.
  public var body: [UInt8]
  /// Content that comes as it is read, in place of `body`; cancelled by the server if it is not sent to its end. When it
  /// breaks off, the connection does too, so that the client does not take it for whole.
  public var stream: (any ContentReader)?
  /// The length of `stream` in bytes; nil if it is not known beforehand.
  public var streamLength: Int?
  /// Whether the connection closes behind it, whatever the client would like.
  public var closesConnection = false

  /// A response with the given content.
  public init(
    _ status: HTTPResponse.Status, prepared: FieldSection = .empty, fields: HTTPFields = [:], body: [UInt8] = []
  ) {
    self.status = status
    self.prepared = prepared
    self.fields = fields
    self.body = body
  }
}

/// An error that the server itself responds with, in Apple's error shape, so that a client parses one format.
public struct ErrorResponse: Error, Sendable, Equatable {
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

  /// An error that leaves the connection open unless told otherwise.
  ///
  /// - Parameter retryAfter: When the caller may come back, in seconds, for `Retry-After`.
  public init(
    _ code: ErrorCode, _ detail: String, fields: HTTPFields = [:], retryAfter: Int? = nil,
    closesConnection: Bool = false
  ) {
    self.code = code
    status = code.status
    self.detail = detail
    self.fields = fields
    if let retryAfter { self.fields[.retryAfter] = "\(retryAfter)" }
    self.closesConnection = closesConnection
  }
}

extension HTTPField.Name {
  /// The name that a literal of this program spells. It traps for one that is no token (RFC 9110 §5.6.2), so that the first
  /// test that uses the constant finds the mistake; another name in its place would write another field.
  package static func literal(_ text: StaticString) -> HTTPField.Name {
    guard let name = HTTPField.Name("\(text)") else { preconditionFailure("'\(text)' is no field name.") }
    return name
  }
}
