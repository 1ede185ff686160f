public import HTTPTypes

/// A final response's status and header section, as HTTP/2 carries them (RFC 9113 §8.3.2).
///
/// One that was received is well-formed: lower-case tokens for names, field values as RFC 9110 §5.5 has them, no field
/// of the connection.
public struct HTTP2ResponseHead: Sendable, Equatable {
  /// `:status`: 200…999 in a received one, since informational responses are left out.
  public var status: Int
  /// The header fields.
  public var fields: HTTPFields
  /// The value of Content-Length, in bytes, if a received response has one; of a response to HEAD and of a 304 it says
  /// nothing about the content that follows (RFC 9110 §8.6). To be sent, it must be among the fields.
  public internal(set) var contentLength: Int?

  /// A response to send.
  public init(status: Int, fields: HTTPFields = [:]) {
    self.status = status
    self.fields = fields
  }
}
