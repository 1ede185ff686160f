public import HTTP1
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
