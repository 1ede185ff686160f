import HTTPMessages
import HTTPTypes
import Testing

@testable import CatalogProxy
@testable import UpstreamAdmission

@Suite struct UpstreamFailureTests {
  @Test(
    "each cause of failure has its error code",
    arguments: [
      (.dnsError, .upstreamError), (.dnsTimeout, .upstreamTimeout), (.destinationUnavailable, .upstreamError),
      (.destinationIPUnroutable, .upstreamError), (.connectionRefused, .upstreamError),
      (.connectionTerminated, .upstreamError), (.connectionTimeout, .upstreamTimeout),
      (.connectionReadTimeout, .upstreamTimeout), (.connectionWriteTimeout, .upstreamTimeout),
      (.connectionLimitReached, .overloaded), (.tlsProtocolError, .upstreamError),
      (.tlsCertificateError, .upstreamError), (.tlsAlertReceived, .upstreamError),
      (.responseIncomplete, .upstreamError), (.responseHeaderSectionSize, .upstreamError),
      (.responseTimeout, .upstreamTimeout), (.protocolError, .upstreamError), (.proxyInternalError, .upstreamError),
      (.cancelled, .upstreamError),
    ] as [(UpstreamError.Cause, ErrorCode)])
  func codes(cause: UpstreamError.Cause, code: ErrorCode) {
    let error = UpstreamError(cause, .unanswered, "10.0.0.1:443 reset the connection.")
    let failure = UpstreamFailure(error, nextHop: "api.music.apple.com", isChange: false)
    #expect(failure.error.code == code)
    #expect(failure.error.detail.contains("api.music.apple.com") && failure.error.detail.hasSuffix("."))
    #expect(!failure.error.detail.contains("10.0.0.1"), "the operator's sentence is not the caller's")
    #expect((failure.error.fields[.retryAfter] != nil) == (code == .overloaded))
    let type = cause == .cancelled ? "proxy_internal_error" : cause.rawValue
    #expect(
      failure.proxyStatus.fieldValue
        == #"musickit-token-server; error=\#(type); next-hop="api.music.apple.com""#)
  }

  @Test("a failure names what the server lacks, unless the failure is Apple's")
  func shortage() {
    let host = "a.example"
    let pause = UpstreamCircuit.Refusal(retryAfter: .seconds(1), isOfResource: false)
    let limit = UpstreamError(.connectionLimitReached, .unprocessed, "")
    let cases: [(UpstreamFailure, Shortage?)] = [
      (.circuitOpen(pause, nextHop: host), .circuit), (.overloaded(retryAfter: .seconds(1)), .queue),
      (.waitedTooLong(nextHop: host), .queueTime), (.overMemory, .memory), (.noToken, .developerToken),
      (UpstreamFailure(limit, nextHop: host, isChange: false), .upstreamConnections),
      (.rateLimited(retryAfter: .seconds(1), nextHop: host), nil), (.onlyIfCached, nil),
      (.status(.badGateway, nextHop: host, isChange: false), nil),
    ]
    for (failure, shortage) in cases { #expect(failure.error.shortage == shortage, "\(failure.error.detail)") }
  }

  @Test("Retry-After is a whole number of seconds, never zero")
  func retryAfter() {
    let host = "a.example"
    let pause = UpstreamCircuit.Refusal(retryAfter: .milliseconds(20), isOfResource: false)
    #expect(UpstreamFailure.circuitOpen(pause, nextHop: host).error.fields[.retryAfter] == "1")
    #expect(
      UpstreamFailure.rateLimited(retryAfter: .milliseconds(1001), nextHop: host).error.fields[.retryAfter] == "2")
    #expect(UpstreamFailure.overloaded(retryAfter: .seconds(-3)).error.fields[.retryAfter] == "1")
  }

  @Test("Proxy-Status names the status that the upstream sent")
  func received() {
    let failure = UpstreamFailure.status(.serviceUnavailable, nextHop: "a.example", isChange: false)
    #expect(failure.error.code == .upstreamError)
    #expect(
      failure.proxyStatus.fieldValue == #"musickit-token-server; received-status=503; next-hop="a.example""#)
    let rejection = TokenRejection(upstreamDate: nil, now: 0)
    let rejected = UpstreamFailure.tokenRejected(rejection, nextHop: "a.example")
    #expect(rejected.proxyStatus.receivedStatus == 401 && rejected.error.detail == rejection.description)
  }

  @Test("a host cannot end the quoted string that contains it")
  func escaping() {
    let status = ProxyStatus(nextHop: "a\"b\\c\r\nd\u{e9}")
    #expect(status.fieldValue == #"musickit-token-server; next-hop="a\"b\\cd""#)
  }

  @Test("does not advise to repeat a change that may have been made")
  func change() {
    let host = "a.example"
    for progress in [UpstreamError.Progress.unprocessed, .unanswered, .answered] {
      let error = UpstreamError(.connectionTerminated, progress, "")
      let mayHaveEffect = progress != .unprocessed
      let change = UpstreamFailure(error, nextHop: host, isChange: true)
      #expect(change.error.detail.contains("may have been made") == mayHaveEffect)
      #expect(change.error.detail.contains("Send it again") == !mayHaveEffect)
      #expect(!UpstreamFailure(error, nextHop: host, isChange: false).error.detail.contains("may have been made"))
    }
    #expect(UpstreamFailure.status(.badGateway, nextHop: host, isChange: true).error.detail.contains("Look before you"))
  }
}
