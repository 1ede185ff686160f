public import HTTPTypes

/// A request's control data and header section, as HTTP/2 carries them (RFC 9113 §8.3.1).
///
/// One that was received is well-formed: lower-case tokens for names, field values as RFC 9110 §5.5 has them, no field
/// of the connection. Nothing has judged what method, scheme, authority and path mean.
public struct HTTP2RequestHead: Sendable, Equatable {
  /// `:method`.
  public var method: String
  /// `:scheme`; empty for CONNECT.
  public var scheme: String
  /// `:authority`; in a received request without one, the value of its Host field. Those two never differ but in case.
  public var authority: String
  /// `:path`, with its query; empty for CONNECT.
  public var path: String
  /// The header fields, without Host.
  public var fields: HTTPFields
  /// The value of Content-Length, in bytes, if a received request has one. To be sent, it must be among the fields.
  public internal(set) var contentLength: Int?

  /// A request to send.
  public init(method: String, scheme: String, authority: String, path: String, fields: HTTPFields = [:]) {
    self.method = method
    self.scheme = scheme
    self.authority = authority
    self.path = path
    self.fields = fields
  }
}
