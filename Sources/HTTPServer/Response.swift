public import HTTP1
public import HTTPMessages
public import HTTPTypes

/// An answer to one request. `Date`, `Content-Length`, `Connection` and `X-Request-ID` are the server's to add.
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
