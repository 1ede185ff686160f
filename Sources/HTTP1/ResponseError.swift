/// Why a response is refused. Every case ends the connection: what follows such a message cannot be told apart from it.
public enum ResponseError: Error, Equatable, Sendable {
  /// Not `HTTP-version SP status-code SP [ reason-phrase ]` (RFC 9112 §4), or something before it.
  case malformedStatusLine
  /// A major version other than 1.
  case unsupportedVersion
  /// More interim responses than ``HTTP1Limits/interimResponses``.
  case tooManyInterimResponses
  /// 101, to a request that asked for no other protocol (RFC 9110 §15.2.2).
  case unaskedUpgrade
  /// More than one Content-Length, and not the same (RFC 9112 §6.3).
  case conflictingContentLength
  /// What a request would be refused for as well: its field lines, its framing, its chunks.
  case malformed(RequestError)

  /// One sentence for the operator. It holds nothing of what was received.
  public var reason: String {
    switch self {
    case .malformedStatusLine: "It does not begin with a version and a status code."
    case .unsupportedVersion: "Its version is neither HTTP/1.1 nor HTTP/1.0."
    case .tooManyInterimResponses: "Too many interim responses precede it."
    case .unaskedUpgrade: "It switches to another protocol, which was not asked for."
    case .conflictingContentLength: "It has more than one Content-Length, and they differ."
    case .malformed(let error): error.reason
    }
  }
}
