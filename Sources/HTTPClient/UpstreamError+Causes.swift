import ClientTransport
import EventLoop
import HTTP1
import HTTP2
import HTTPMessages
import HTTPTypes
import TLS

extension UpstreamError {
  /// Creates the error for a connection that could not be opened.
  init(_ error: ConnectError) {
    let cause: Cause =
      switch error.cause {
      case .unknownHost: .dnsError
      case .resolverTimedOut: .dnsTimeout
      case .refused: .connectionRefused
      case .unroutable: .destinationIPUnroutable
      case .timedOut: .connectionTimeout
      case .failed: .destinationUnavailable
      }
    self.init(cause, .unprocessed, error.description)
  }

  /// Creates the error for a TLS session that failed.
  init(_ error: TLSError, _ progress: Progress) {
    let cause: Cause =
      switch error.cause {
      case .certificateOfPeer: .tlsCertificateError
      case .alertFromPeer: .tlsAlertReceived
      case .configuration, .internalFailure: .proxyInternalError
      case .plaintextHTTP, .violationByPeer, .limitExceeded: .tlsProtocolError
      }
    self.init(cause, progress, error.description)
  }

  /// Creates the error for a malformed response.
  init(_ error: ResponseError, from peer: String) {
    let cause: Cause =
      switch error {
      case .malformed(.headerSectionTooLarge), .malformed(.tooManyFieldLines): .responseHeaderSectionSize
      default: .protocolError
      }
    self.init(cause, .answered, "The response of \(peer) is malformed. \(error.reason)")
  }

  /// Creates the error for a connection that ended.
  init(_ end: ByteTransportEnd, _ progress: Progress, with peer: String) {
    let moment =
      switch progress {
      case .unprocessed: "before the request was sent"
      case .unanswered: "before it responded"
      case .answered: "in the middle of its response"
      }
    switch end {
    case .closed:
      let cause = progress == .answered ? Cause.responseIncomplete : .connectionTerminated
      self.init(cause, progress, "\(peer) closed the connection \(moment).")
    case .failed(let error):
      self.init(.connectionTerminated, progress, "The connection to \(peer) broke \(moment) (\(error)).")
    case .failedTLS(let error): self.init(error, progress)
    case .stalled:
      self.init(.connectionWriteTimeout, progress, "\(peer) does not read the request.")
    case .dead:
      // The connection is dead, not the response slow, so a GET may be sent again.
      self.init(.connectionTerminated, progress, "\(peer) stopped responding \(moment).")
    case .ended: self.init(.cancelled, progress, "The client of \(peer) was closed.")
    }
  }

  /// The error for response content that has started.
  var contentError: ContentError {
    switch cause {
    case .cancelled: .cancelled
    case .responseTimeout: .timedOut
    default: .broken(description)
    }
  }
}

/// The end of an HTTP/2 connection to the upstream, and its consequences for the requests on it.
///
/// | the end | error type of `Proxy-Status` |
/// | --- | --- |
/// | the peer violated the protocol (SETTINGS missing or malformed, HPACK, CONTINUATION, flow control, frame size, …), or sent a flood: the client sends GOAWAY | `http_protocol_error` |
/// | the peer sent GOAWAY with an error code, then closed with responses missing | `http_protocol_error` |
/// | the peer closed the connection: in order, within a frame, after GOAWAY with NO_ERROR, or by a reset; or answers no PING | `connection_terminated` |
/// | the peer reads nothing of what is sent | `connection_write_timeout` |
/// | TLS failed | the `tls_…` of the failure |
/// | this client was closed, or its loop ends | none: the request is cancelled |
///
/// In the middle of a response, a terminated connection is `http_response_incomplete`. A stream that the peer did not
/// process, or that was never sent, is `unprocessed` in every case. Other streams are `unanswered` before the head of
/// the response and `answered` after it. All errors of one connection have its number: the retry budget and the circuit
/// breaker count them as one event.
enum HTTP2ConnectionEnd {
  /// The peer violated the protocol, in the library's words, or the library failed.
  case violation(HTTP2Error)
  /// The peer sent GOAWAY with an error code, and closed the connection.
  case reported(HTTP2GoAway)
  /// The connection below HTTP/2 ended.
  case transport(ByteTransportEnd)

  /// - Parameters:
  ///   - failure: The failure of the session.
  ///   - link: The end of the link. Nil if this side closed it.
  init(_ failure: HTTP2Error?, _ goAway: HTTP2GoAway?, link: ByteTransportEnd?) {
    switch (failure, link) {
    case (let failure?, _) where failure != .connectionLost: self = .violation(failure)
    case (_, .closed?), (_, .failed?):
      if let goAway, goAway.code != .noError { self = .reported(goAway) } else { self = .transport(link ?? .ended) }
    case (_, let link?): self = .transport(link)
    case (_, nil): self = .violation(.internalFailure("The library ended the session without a reason."))
    }
  }

  /// Returns the error for a request on the connection.
  /// - Parameter connection: The number of the connection.
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
  /// The event as part of a sentence, with the library's own words.
  fileprivate var reason: String {
    switch self {
    case .connectionError(let code, let text): text.isEmpty ? "\(code)" : "\(text), \(code)"
    case .flood(.idleFrames): "too many frames without data"
    case .flood(.resets): "too many reset streams"
    case .flood(.continuations): "too many CONTINUATION frames"
    case .flood(.fieldSection): "too large a header section"
    case .notHTTP2: "it does not send HTTP/2"
    case .internalFailure(let words): words
    case .noStreamAvailable, .fieldSectionTooLarge, .malformedMessage, .connectionLost: "\(self)"
    }
  }
}
