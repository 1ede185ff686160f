import HTTP1
import HTTPTypes

/// What ends a connection, in words and codes: the one place where causes below the routes become answers.
extension Refusal {
  /// The codec refused a head or a chunked body. What follows on the connection has no meaning any more.
  init(_ error: RequestError) {
    self.init(ErrorCode(codecStatus: error.status), error.reason, closesConnection: true)
  }

  static let headTimeout = Refusal(
    .requestTimeout, "The header section did not arrive in time.", closesConnection: true)

  static let bodyTimeout = Refusal(
    .requestTimeout, "The content did not arrive in time.", closesConnection: true)

  static let workTimeout = Refusal(
    .upstreamTimeout, "The response took longer than this server waits for one.", closesConnection: true)

  static let draining = Refusal(
    .draining, "This server is shutting down; send the request again.", fields: [.retryAfter: "1"],
    closesConnection: true)

  static let overMemory = Refusal(
    .overloaded, "This server holds as much for its clients as it can; send the request again shortly.",
    fields: [.retryAfter: "1"], closesConnection: true)

  static let plaintextOnTLS = Refusal(
    .malformedRequest, "This port speaks HTTPS: use https:// instead of http://.", closesConnection: true)

  static func contentTooLarge(_ limit: Int) -> Refusal {
    Refusal(
      .contentTooLarge, "The content is longer than the \(limit) bytes that this path takes.", closesConnection: true)
  }
}
