public import HTTPTypes

/// Why the header fields of a request keep it from going upstream.
public enum FieldRefusal: Error, Sendable, Equatable {
  /// A field that may occur only once occurs several times. Which one counts is not for two servers to guess.
  case repeated(StaticString)
  /// A value is empty, too long, or holds something other than visible ASCII.
  case malformed(StaticString)
  /// A field that would change what the request does, and is not forwarded.
  case unsupported(StaticString)

  /// The status: always 400.
  public var status: HTTPResponse.Status { .badRequest }

  /// The `code` of the error object.
  public var code: String { "malformed_request" }

  /// The `detail` of the error object: one sentence for the caller, without the value.
  public var detail: String {
    switch self {
    case .repeated(let name): "The field \(name) occurs several times."
    case .malformed(let name): "The value of the field \(name) is empty, too long, or not of visible ASCII characters."
    case .unsupported(let name): "A request with the field \(name) is not forwarded."
    }
  }

  /// Whether two refusals are the same.
  public static func == (left: FieldRefusal, right: FieldRefusal) -> Bool {
    left.detail == right.detail
  }
}
