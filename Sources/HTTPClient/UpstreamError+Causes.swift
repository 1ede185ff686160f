import ClientTransport
import EventLoop
import HTTP1
import HTTP2
import HTTPMessages
import HTTPTypes
import TLS

extension UpstreamError {
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

  init(_ error: ResponseError, from peer: String) {
    let cause: Cause =
      switch error {
      case .malformed(.headerSectionTooLarge), .malformed(.tooManyFieldLines): .responseHeaderSectionSize
      default: .protocolError
      }
    self.init(cause, .answered, "The response of \(peer) is malformed. \(error.reason)")
  }

  init(_ end: ByteTransportEnd, _ progress: Progress, with peer: String) {
    switch end {
    case .closed:
      let cause = progress == .answered ? Cause.responseIncomplete : .connectionTerminated
      self.init(cause, progress, "\(peer) closed the connection \(progress.moment).")
    case .failed(let error):
      self.init(.connectionTerminated, progress, "The connection to \(peer) broke \(progress.moment) (\(error)).")
    case .failedTLS(let error): self.init(error, progress)
    case .stalled: self.init(.connectionWriteTimeout, progress, "\(peer) does not read the request.")
    case .dead:
      // The connection is dead, not the response slow, so a GET may be sent again.
      self.init(.connectionTerminated, progress, "\(peer) stopped responding \(progress.moment).")
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

  /// Creates the error of a request on an HTTP/2 connection that has ended.
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
  /// In the middle of a response, a terminated connection is `http_response_incomplete`. A stream that was never sent
  /// or not processed is `unprocessed`, others `unanswered` until the head of the response. All errors of one
  /// connection have its number: the retry budget and the circuit breaker count them as one event.
  ///
  /// - Parameter transport: The end of the transport. Nil if this side closed it.
  init(
    _ failure: HTTP2Error?, _ goAway: HTTP2GoAway?, transport: ByteTransportEnd?, _ progress: Progress,
    with peer: String, connection: UInt64
  ) {
    let violation: String?
    switch (failure, transport) {
    case (let failure?, _) where failure != .connectionLost: violation = "broke the HTTP/2 protocol: \(failure.reason)"
    case (_, .closed?), (_, .failed?): violation = goAway?.reason
    case (_, _?): violation = nil
    case (_, nil): violation = "broke the HTTP/2 protocol: The library ended the session without a reason"
    }
    if let violation {
      self.init(.protocolError, progress, "\(peer) \(violation).", connection: connection)
    } else {
      let error = UpstreamError(transport ?? .ended, progress, with: peer)
      self.init(error.cause, progress, error.description, connection: connection)
    }
  }
}

extension UpstreamError.Progress {
  /// The time of a failure, as part of a sentence.
  var moment: String {
    switch self {
    case .unprocessed: "before the request was sent"
    case .unanswered: "before it responded"
    case .answered: "in the middle of its response"
    }
  }
}

extension HTTP2GoAway {
  /// Why the peer closed the connection, as part of a sentence; nil for NO_ERROR.
  fileprivate var reason: String? {
    let text = debugText.isEmpty ? "" : ": \(debugText)"
    return code == .noError ? nil : "closed the connection after GOAWAY with \(code)\(text)"
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
