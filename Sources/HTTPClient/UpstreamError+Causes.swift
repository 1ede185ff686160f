import EventLoop
import HTTP1
import HTTPMessages
import TLS

extension UpstreamError {
  /// No connection could be made.
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

  /// TLS came to an end.
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

  /// The response is malformed.
  init(_ error: ResponseError, from peer: String) {
    let cause: Cause =
      switch error {
      case .malformed(.headerSectionTooLarge), .malformed(.tooManyFieldLines): .responseHeaderSectionSize
      default: .protocolError
      }
    self.init(cause, .answered, "The response of \(peer) is malformed. \(error.reason)")
  }

  /// The connection came to an end.
  init(_ end: ByteTransportEnd, _ progress: Progress, with peer: String) {
    let moment =
      switch progress {
      case .unprocessed: "before the request was sent"
      case .unanswered: "before it answered"
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
      self.init(.connectionWriteTimeout, progress, "\(peer) takes nothing of what is sent to it.")
    case .dead:
      // Not a slow response but no connection any more: a GET may be sent again.
      self.init(.connectionTerminated, progress, "\(peer) gave no sign of life \(moment).")
    case .ended: self.init(.cancelled, progress, "The client of \(peer) was closed.")
    }
  }

  /// What breaks off content that has begun.
  var contentError: ContentError {
    switch cause {
    case .cancelled: .cancelled
    case .responseTimeout: .timedOut
    default: .broken(description)
    }
  }
}
