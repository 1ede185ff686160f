public import HTTPTypes

/// An upstream's final response, whose content is still to be read, or cancelled.
public struct UpstreamResponse: Sendable {
  /// The status.
  public var status: HTTPResponse.Status
  /// Its end-to-end header fields, valid (RFC 9110 §5.5); those of the connection are gone.
  public var fields: HTTPFields
  /// The version of HTTP that it came in, as `Via` has it: `2` or `1.1`.
  public var version: StaticString
  /// The content. If the response has no content, the first read returns nil.
  public var content: any ContentReader
  /// The length of the content in bytes, if the upstream has said it.
  public var contentLength: Int?

  /// A response.
  public init(
    status: HTTPResponse.Status, fields: HTTPFields, version: StaticString = "1.1", content: any ContentReader,
    contentLength: Int? = nil
  ) {
    self.status = status
    self.fields = fields
    self.version = version
    self.content = content
    self.contentLength = contentLength
  }
}
