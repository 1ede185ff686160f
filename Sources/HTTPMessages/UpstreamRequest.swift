public import HTTPTypes

/// A request to an upstream server. Scheme and authority are the upstream's own.
public struct UpstreamRequest: Sendable {
  /// The method.
  public var method: HTTPRequest.Method
  /// The path with its query, in origin form (RFC 9112 §3.2.1): sent byte for byte.
  public var target: String
  /// End-to-end header fields. Host, connection and framing fields are the client's to add.
  public var fields: HTTPFields
  /// Its content; nil for none.
  public var content: (any ContentReader)?
  /// The length of the content in bytes, if it is known beforehand.
  public var contentLength: Int?

  /// A request, without content unless given.
  public init(
    _ method: HTTPRequest.Method, _ target: String, fields: HTTPFields = [:], content: (any ContentReader)? = nil,
    contentLength: Int? = nil
  ) {
    self.method = method
    self.target = target
    self.fields = fields
    self.content = content
    self.contentLength = contentLength
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
