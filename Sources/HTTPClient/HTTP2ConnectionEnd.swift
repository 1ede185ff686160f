import HTTP2
import HTTPMessages
import HTTPTypes

/// Every way in which an HTTP/2 connection to the upstream ends, with what follows for the requests on it.
///
/// | the end | error type of `Proxy-Status` |
/// | --- | --- |
/// | the peer broke the protocol (SETTINGS missing or malformed, HPACK, CONTINUATION, flow control, frame size, …), or sent a flood: this end says GOAWAY | `http_protocol_error` |
/// | the peer said GOAWAY with an error code, then closed without the responses that it owed | `http_protocol_error` |
/// | the peer closed it, in order, within a frame, after GOAWAY with NO_ERROR, or by a reset; or answers no PING | `connection_terminated` |
/// | the peer takes nothing of what is sent | `connection_write_timeout` |
/// | TLS failed | the `tls_…` of the failure |
/// | this client was closed, or its loop ends | none: the request is cancelled |
///
/// In the middle of a response a connection that terminated is `http_response_incomplete`. A stream that the peer did
/// not process, or that was never sent, is `unprocessed` at every end; the others are `unanswered` before the head of
/// the response and `answered` after it. All errors of one connection bear its number: for the budget of retries and for
/// the circuit breaker they are one event.
enum HTTP2ConnectionEnd {
  /// The peer broke the protocol, in the library's words, or the library gave up.
  case violation(HTTP2Error)
  /// The peer gave an error as the reason for its GOAWAY, and closed.
  case reported(HTTP2GoAway)
  /// The connection below HTTP/2 ended.
  case transport(ByteTransportEnd)

  /// - Parameters:
  ///   - failure: The session's.
  ///   - link: How the link ended; nil if this end closed it.
  init(_ failure: HTTP2Error?, _ goAway: HTTP2GoAway?, link: ByteTransportEnd?) {
    switch (failure, link) {
    case (let failure?, _) where failure != .connectionLost: self = .violation(failure)
    case (_, .closed?), (_, .failed?):
      if let goAway, goAway.code != .noError { self = .reported(goAway) } else { self = .transport(link ?? .ended) }
    case (_, let link?): self = .transport(link)
    case (_, nil): self = .violation(.internalFailure("The library ended the session without a reason."))
    }
  }

  /// What a request on the connection is told.
  /// - Parameter connection: The connection's number.
  func error(_ progress: UpstreamError.Progress, with peer: String, connection: UInt64) -> UpstreamError {
    switch self {
    case .violation(let error):
      let words = "\(peer) broke the HTTP/2 protocol: \(error.reason)."
      return UpstreamError(.protocolError, progress, words, connection: connection)
    case .reported(let goAway):
      let text = goAway.debugText.isEmpty ? "" : ": \(goAway.debugText)"
      let words = "\(peer) closed the connection after GOAWAY with \(goAway.code)\(text)."
      return UpstreamError(.protocolError, progress, words, connection: connection)
    case .transport(let end):
      let error = UpstreamError(end, progress, with: peer)
      return UpstreamError(error.cause, progress, error.description, connection: connection)
    }
  }
}

extension HTTP2Error {
  /// What happened, as part of a sentence, with the library's own words.
  fileprivate var reason: String {
    switch self {
    case .connectionError(let code, let text): text.isEmpty ? "\(code)" : "\(text), \(code)"
    case .flood(.idleFrames): "too many frames that carry nothing"
    case .flood(.resets): "too many streams cut short"
    case .notHTTP2: "it sent something else"
    case .internalFailure(let words): words
    case .noStreamAvailable, .fieldSectionTooLarge, .malformedMessage, .connectionLost: "\(self)"
    }
  }
}
