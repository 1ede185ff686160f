public import HTTPTypes

extension RequestError {
  /// The status to answer with.
  public var status: HTTPResponse.Status {
    switch self {
    case .requestLineTooLong: .uriTooLong
    case .headerSectionTooLarge, .tooManyFieldLines, .trailerSectionTooLarge: .requestHeaderFieldsTooLarge
    case .unsupportedExpectation: .expectationFailed
    case .methodTooLong, .unsupportedTransferCoding: .notImplemented
    case .unsupportedVersion: .httpVersionNotSupported
    default: .badRequest
    }
  }
}
