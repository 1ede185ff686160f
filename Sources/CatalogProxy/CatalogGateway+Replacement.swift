import HTTPMessages
import HTTPTypes

/// Responses of Apple that the server replaces by errors of its own, with what Apple says in them.
extension CatalogGateway {
  /// Returns the step after a response that the caller does not get. Only JSON has words of Apple's to read.
  func failed(_ response: UpstreamResponse, _ failure: UpstreamFailure) -> Step {
    guard response.isJSON, response.contentLength != 0 else {
      response.content.cancel()
      return .done(.failure(failure.saying(response.words)))
    }
    return .failed(response, failure)
  }

  /// Reads what Apple says in a response that the caller does not get. A response that does not come to its end soon must
  /// not hold the caller up.
  func read(_ response: UpstreamResponse, of exchange: CatalogExchange) async -> ReplacedResponse {
    let alarm = exchange.route.upstream.alarm(after: Self.timeForWords) { response.content.cancel() }
    defer { alarm.cancel() }
    return await response.read(configuration.memory)
  }

  private static let timeForWords = Duration.seconds(1)
}

extension UpstreamResponse {
  /// Whether the caller gets the response. Otherwise it is an error of Apple, or does not match the request: 206,
  /// although the server never sends `Range`, or 304 to a request without preconditions. The caller would treat a part as
  /// the whole (RFC 9110 §15.3.7, §15.4.5).
  ///
  /// Content that a browser could run does not pass either. It comes from a server before Apple's, as does a 403 that is
  /// not JSON: without a user token it would tell an app to fetch a new one.
  func isFinal(for exchange: CatalogExchange) -> Bool {
    switch status.code {
    case 206, 401, 429, 500...: false
    case 204: true
    case 304: exchange.isConditional
    case 403: hasPassableType && (isJSON || exchange.call.target.wantsUserToken)
    default: hasPassableType
    }
  }
}

extension HTTPResponse.Status {
  /// Whether a response with this status can be one to a request of this server.
  var isOfTheRequest: Bool { code < 500 && code != 206 && code != 304 }
}
